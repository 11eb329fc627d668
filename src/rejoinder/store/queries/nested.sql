-- name: start
SELECT rejoinder.start_nested_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: wait
SELECT status, created_at, timeout_at FROM rejoinder.await_nested_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: settle
SELECT what, id FROM rejoinder.settle_chain_v1($1);

-- name: chain
-- A run and those that it waits for, however deep. active: something goes on there by itself - code that runs, a
-- resumption that is under way, the end of a run that is not carried to its caller yet.
WITH RECURSIVE chain AS (
    SELECT $1::uuid AS id
    UNION
    SELECT q.nested_run_id FROM chain c JOIN rejoinder.question q ON q.run_id = c.id
     WHERE q.to_kind = 'run' AND q.state = 'pending'
)
SELECT r.id,
       r.state = 'running'
       OR EXISTS (SELECT FROM rejoinder.resume s WHERE s.run_id = r.id AND s.finished_at IS NULL)
       OR r.id <> $1 AND r.state NOT IN ('running', 'parked') AND NOT r.held AS active
  FROM chain JOIN rejoinder.run r ON r.id = chain.id;

-- name: asks
-- What a run and those that it waits for ask their callers, oldest deadline first.
WITH RECURSIVE chain AS (
    SELECT $1::uuid AS id
    UNION
    SELECT q.nested_run_id FROM chain c JOIN rejoinder.question q ON q.run_id = c.id
     WHERE q.to_kind = 'run' AND q.state = 'pending'
)
SELECT {columns} FROM rejoinder.question
 WHERE run_id IN (SELECT chain.id FROM chain) AND to_kind = 'caller' AND state = 'pending'
   AND timeout_at > rejoinder.clock()
 ORDER BY timeout_at, id;

-- name: is_above
WITH RECURSIVE above AS (
    SELECT r.id, r.parent_run_id FROM rejoinder.run r WHERE r.id = $2
    UNION ALL
    SELECT r.id, r.parent_run_id FROM above a JOIN rejoinder.run r ON r.id = a.parent_run_id
)
SELECT EXISTS (SELECT FROM above WHERE id = $1);

-- name: asks_of
-- What the runs of one identity ask their callers.
SELECT {columns} FROM rejoinder.question
 WHERE to_kind = 'caller' AND state = 'pending' AND asked_by = $1 AND timeout_at > rejoinder.clock()
 ORDER BY timeout_at, id LIMIT $2;
