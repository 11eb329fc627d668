-- name: recorded_with
-- A question and its ticket, in one statement: neither is ever without the other. In braces: the query
-- that records, and the number of the digest's parameter.
WITH recorded AS MATERIALIZED ({record}), ticket AS (
    INSERT INTO rejoinder.ticket (digest, question_id)
    SELECT ${digest}, $1 FROM recorded WHERE recorded.status = 'recorded'
)
SELECT status, created_at, timeout_at FROM recorded;

-- name: add
-- One more ticket of an open question. made | full (it has as many as it may have) | closed
WITH open AS (
    SELECT q.id, (SELECT count(*) FROM rejoinder.ticket t WHERE t.question_id = q.id) AS tickets
      FROM rejoinder.question q WHERE q.id = $2 AND q.state = 'pending' AND q.timeout_at > rejoinder.clock()
), made AS (
    INSERT INTO rejoinder.ticket (digest, question_id) SELECT $1, o.id FROM open o WHERE o.tickets < $3
    RETURNING question_id
)
SELECT CASE WHEN EXISTS (SELECT FROM made) THEN 'made' WHEN EXISTS (SELECT FROM open) THEN 'full' ELSE 'closed' END;

-- name: answer
SELECT status, run_id, park_id, resumes FROM rejoinder.answer_by_ticket_v1($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: first_key
INSERT INTO rejoinder.sealing_key (purpose, number, secret) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING;

-- name: keys
SELECT number, secret FROM rejoinder.sealing_key WHERE purpose = $1 ORDER BY number;

-- name: prune
DELETE FROM rejoinder.seen_delivery WHERE digest IN (
    SELECT digest FROM rejoinder.seen_delivery WHERE expires_at <= (SELECT rejoinder.clock()) ORDER BY expires_at LIMIT 5000);
