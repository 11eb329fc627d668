-- name: join
INSERT INTO rejoinder.process (id, kind, host, pid, version, lock_key) VALUES ($1, $2, $3, $4, $5, $6);

-- name: beat
-- Tells how many seconds the database has been up. No row where the process has ended.
UPDATE rejoinder.process SET beat_at = clock_timestamp() WHERE id = $1 AND ended_at IS NULL
RETURNING EXTRACT(EPOCH FROM clock_timestamp() - pg_postmaster_start_time())::float8;

-- name: bury_dead
SELECT process_id, withdrawn FROM rejoinder.bury_dead_v3($1, $2);

-- name: leave
SELECT rejoinder.end_process_v3($1, $2);

-- name: alive
SELECT id, kind, host, pid, version, started_at, beat_at FROM rejoinder.process
 WHERE ended_at IS NULL ORDER BY started_at;
