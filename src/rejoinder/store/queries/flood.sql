-- name: add
-- In the order of the keys: two processes that add to the same rows wait for each other in one direction only.
INSERT INTO rejoinder.flood AS f (bucket, hits, ends_at)
SELECT n.bucket, n.hits, to_timestamp(n.ends) FROM unnest($1::bytea[], $2::int[], $3::float8[]) AS n (bucket, hits, ends)
 ORDER BY n.bucket
ON CONFLICT (bucket) DO UPDATE SET hits = f.hits + excluded.hits
RETURNING bucket, hits;

-- name: prune
-- A minute late: clocks of processes differ a little.
DELETE FROM rejoinder.flood WHERE bucket IN (
    SELECT bucket FROM rejoinder.flood WHERE ends_at < (SELECT clock_timestamp() - interval '1 minute') ORDER BY ends_at LIMIT 5000);
