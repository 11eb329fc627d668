-- name: columns
id, run_id, park_id, group_id, mode, answer_format, question, format_payload, media, audience, sensitive, on_expiry,
tool, asked_by, state, created_at, timeout_at, answer, closed_at, closed_by, closed_via, reason, to_kind, payload,
nested_run_id, reply

-- name: record
SELECT status, created_at, timeout_at FROM rejoinder.record_question_v2(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23);

-- name: record_caller
SELECT status, created_at, timeout_at FROM rejoinder.record_caller_v1(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24);

-- name: close
SELECT id, run_id, park_id, resumes FROM rejoinder.close_questions_v1($1, $2, $3, $4, $5, $6, $7, $8);

-- name: expire_due
SELECT id, run_id, park_id, resumes FROM rejoinder.expire_due_v1($1);

-- name: next_deadline
-- Seconds until the earliest open deadline, by the database's clock; no row where nothing is open.
SELECT EXTRACT(EPOCH FROM timeout_at - rejoinder.clock())::float8 AS seconds
  FROM rejoinder.question WHERE state = 'pending' ORDER BY timeout_at, id LIMIT 1;

-- name: by_id
SELECT {columns} FROM rejoinder.question WHERE id = $1;

-- name: by_ids
SELECT {columns} FROM rejoinder.question WHERE id = ANY ($1);

-- name: for_answer
-- All that an answer door must know before it tries, in one read.
SELECT {columns}, seal_key, answer_digest, timeout_at <= rejoinder.clock() AS late,
       closed_at < rejoinder.clock() - $2::interval AS gone
  FROM rejoinder.question WHERE id = $1;

-- name: by_ticket
-- The same for whoever comes with a ticket.
SELECT {columns}, seal_key, answer_digest, timeout_at <= rejoinder.clock() AS late,
       closed_at < rejoinder.clock() - $2::interval AS gone
  FROM rejoinder.question WHERE id = (SELECT t.question_id FROM rejoinder.ticket t WHERE t.digest = $1);

-- name: answered_by_tickets
-- Of these tickets those whose question has its answer, by whichever ticket that came.
SELECT t.digest FROM rejoinder.ticket t JOIN rejoinder.question q ON q.id = t.question_id
 WHERE t.digest = ANY ($1) AND q.state = 'answered';

-- name: outcomes
-- What woken callers read, all of one burst together.
SELECT id, state, answer, sealed_answer, closed_at, timeout_at, reason, closed_via, reply
  FROM rejoinder.question WHERE id = ANY ($1) AND state <> 'pending';

-- name: forget_sealed
UPDATE rejoinder.question SET sealed_answer = NULL WHERE id = $1 AND sealed_answer IS NOT NULL;

-- name: page
-- One page of open questions, oldest deadline first. A keyset: any depth costs the same.
SELECT {columns} FROM rejoinder.question
 WHERE state = 'pending' AND to_kind = 'user' AND timeout_at > rejoinder.clock() AND (timeout_at, id) > ($1, $2)
   AND ($3::text IS NULL OR audience = $3)
 ORDER BY timeout_at, id LIMIT $4 OFFSET $5;

-- name: page_of
-- The same for one audience, which has an index of its own.
SELECT {columns} FROM rejoinder.question
 WHERE state = 'pending' AND timeout_at > rejoinder.clock() AND (timeout_at, id) > ($1, $2) AND audience = $3
 ORDER BY timeout_at, id LIMIT $4 OFFSET $5;

-- name: count
-- Exact up to a cap: counting a million rows takes 150 ms. In the order of the index, or the table would be read from
-- its beginning, where years of closed questions lie.
SELECT count(*) FROM (SELECT 1 FROM rejoinder.question
 WHERE state = 'pending' AND to_kind = 'user' AND timeout_at > (SELECT rejoinder.clock()) ORDER BY timeout_at, id LIMIT $1) AS counted;

-- name: count_of
SELECT count(*) FROM (SELECT 1 FROM rejoinder.question
 WHERE state = 'pending' AND audience = $2 AND timeout_at > (SELECT rejoinder.clock())
 ORDER BY timeout_at, id LIMIT $1) AS counted;

-- name: search
-- The operator's view: any state, filtered. NULL leaves a filter out.
SELECT {columns} FROM rejoinder.question
 WHERE to_kind = 'user' AND ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR group_id = $2) AND ($3::text IS NULL OR tool = $3)
   AND ($4::text IS NULL OR audience = $4) AND ($5::text IS NULL OR mode = $5)
   AND ($6::text IS NULL OR question ILIKE $6)
 ORDER BY CASE WHEN state = 'pending' THEN 0 ELSE 1 END, CASE WHEN state = 'pending' THEN timeout_at END,
          closed_at DESC NULLS LAST, id
 LIMIT $7 OFFSET $8;

-- name: parked
SELECT {columns} FROM rejoinder.question
 WHERE state = 'pending' AND to_kind = 'user' AND mode = 'async' AND ($2::text IS NULL OR audience = $2)
 ORDER BY timeout_at, id LIMIT $1;

-- name: of_run
SELECT {columns} FROM rejoinder.question WHERE run_id = $1 ORDER BY ordinal;

-- name: open_below
-- What people are asked by a run, and by the runs that it has called and that go on, however deep.
WITH RECURSIVE below AS (
    SELECT $1::uuid AS id
    UNION
    SELECT r.id FROM below b JOIN rejoinder.run r ON r.parent_run_id = b.id WHERE r.state IN ('running', 'parked')
)
SELECT {columns} FROM rejoinder.question
 WHERE run_id IN (SELECT id FROM below) AND state = 'pending' AND to_kind = 'user'
 ORDER BY created_at, ordinal;

-- name: of_park
SELECT {columns} FROM rejoinder.question WHERE park_id = $1 ORDER BY ordinal;

-- name: counts_by_state
SELECT state, count(*) AS questions FROM rejoinder.question WHERE state = 'pending' GROUP BY state;

-- name: ensure_slots
INSERT INTO rejoinder.slot (kind, n) SELECT $1, g FROM generate_series(1, $2::int) AS g ON CONFLICT DO NOTHING;
