-- name: add
INSERT INTO rejoinder.media (id, question_id, content_type, content) VALUES ($1, $2, $3, $4);

-- name: copy
INSERT INTO rejoinder.media (id, question_id, content_type, content)
SELECT n.id, $3, m.content_type, m.content
  FROM unnest($1::text[], $2::text[]) AS n (id, source) JOIN rejoinder.media m ON m.id = n.source
RETURNING id, octet_length(content) AS size;

-- name: find
SELECT m.content_type, CASE WHEN $3 THEN m.content END AS content, octet_length(m.content) AS size,
       floor(EXTRACT(EPOCH FROM COALESCE(q.closed_at, q.timeout_at) + $2::interval - rejoinder.clock())) AS remaining
  FROM rejoinder.media m JOIN rejoinder.question q ON q.id = m.question_id
 WHERE m.id = $1 AND COALESCE(q.closed_at, q.timeout_at) + $2::interval > rejoinder.clock();

-- name: prune
-- A walk by id: a round costs the same however many images are kept.
WITH looked AS (
    SELECT m.id, m.question_id FROM rejoinder.media m WHERE m.id > $1 ORDER BY m.id LIMIT $3
), gone AS (
    DELETE FROM rejoinder.media m
     USING looked l LEFT JOIN rejoinder.question q ON q.id = l.question_id
     WHERE m.id = l.id AND (q.id IS NULL OR q.closed_at < rejoinder.clock() - $2::interval)
    RETURNING m.id
)
SELECT (SELECT max(id) FROM looked) AS last, (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM gone) AS gone;
