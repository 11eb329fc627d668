-- name: enter
SELECT status, starts, round, question_ids, outcome FROM rejoinder.enter_step_v2($1, $2, $3, $4, $5, $6);

-- name: hold
SELECT rejoinder.hold_run_v1($1, $2);

-- name: record
SELECT rejoinder.record_step_v1($1, $2, $3, $4, $5, $6, $7);

-- name: standing
-- What a drive must know before it begins: the park that is not sealed yet, and how many questions the run has asked.
SELECT (SELECT p.id FROM rejoinder.park p
         WHERE p.run_id = $1 AND p.sealed_at IS NULL AND p.killed_at IS NULL ORDER BY p.round DESC LIMIT 1) AS park_id,
       (SELECT count(*) FROM rejoinder.question q WHERE q.run_id = $1) AS asked;

-- name: of_run
SELECT id, name, state, starts, outcome FROM rejoinder.step WHERE run_id = $1;

-- name: forget
-- Of these steps it is as if they had never begun. Not by a worker that no longer drives the run.
WITH held AS (SELECT 1 FROM rejoinder.run r WHERE r.id = $1 AND r.epoch = $2 AND r.state = 'running' FOR SHARE)
DELETE FROM rejoinder.step s WHERE s.id = ANY ($3) AND s.run_id = $1 AND EXISTS (SELECT FROM held);

-- name: sweepable
-- Ended runs whose checkpoints nobody needs any more. A held one may be sent on from its own.
SELECT id FROM rejoinder.run
 WHERE checkpointed AND swept_at IS NULL AND finished_at < (SELECT rejoinder.clock() - $1::interval) AND NOT held
 ORDER BY finished_at LIMIT $2;

-- name: swept
WITH gone AS (DELETE FROM rejoinder.step WHERE run_id = ANY ($1))
UPDATE rejoinder.run SET swept_at = rejoinder.clock() WHERE id = ANY ($1);

-- name: stranded
-- Open questions of runs that wait longer than their checkpoints are kept. Deadlines are refused so that there are
-- none; there are where the retention was shortened meanwhile.
SELECT q.id FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id
 WHERE r.checkpointed AND r.state = 'parked' AND r.entered_at < rejoinder.clock() - $1::interval
   AND q.state = 'pending' AND q.park_id IS NOT NULL
 ORDER BY r.entered_at LIMIT $2;

-- name: pin_preset
UPDATE rejoinder.step SET preset_version = COALESCE(preset_version, $2) WHERE id = $1 RETURNING preset_version;
