-- name: enter
SELECT status, starts, round, question_ids, outcome FROM rejoinder.enter_step_v1($1, $2, $3, $4, $5, $6);

-- name: record
SELECT rejoinder.record_step_v1($1, $2, $3, $4, $5, $6, $7);

-- name: standing
-- What a drive must know before it begins: the park that is not sealed yet, and how many questions the run has asked.
SELECT (SELECT p.id FROM rejoinder.park p
         WHERE p.run_id = $1 AND p.sealed_at IS NULL AND p.killed_at IS NULL ORDER BY p.round DESC LIMIT 1) AS park_id,
       (SELECT count(*) FROM rejoinder.question q WHERE q.run_id = $1) AS asked;
