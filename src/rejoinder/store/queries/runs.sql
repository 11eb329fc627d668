-- name: columns
id, tool, arguments, door, state, phase, identity, key_id, owner_process, epoch, starts, idempotent, held, result,
error, trace, created_at, entered_at, finished_at, parent_run_id, preset_version, subject

-- name: by_id
SELECT {columns} FROM rejoinder.run WHERE id = $1;

-- name: newest
-- Newest first; NULL leaves a filter out. Results and errors are not read.
SELECT {brief} FROM rejoinder.run
 WHERE ($1::text IS NULL OR tool = $1) AND ($2::text IS NULL OR identity = $2) AND ($3::text IS NULL OR state = $3)
   AND ($4::boolean IS NULL OR held = $4) AND ($5::text IS NULL OR subject = $5)
 ORDER BY created_at DESC, id LIMIT $6;

-- name: start
SELECT rejoinder.start_run_v3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: begin
SELECT rejoinder.begin_run_v1($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: enter
SELECT status, epoch FROM rejoinder.enter_run_v2($1, $2, $3, $4, $5, $6);

-- name: seal
SELECT status, resumes FROM rejoinder.seal_park_v1($1, $2, $3);

-- name: finish
SELECT status, withdrawn FROM rejoinder.finish_run_v1($1, $2, $3, $4, $5, $6);

-- name: finish_many
SELECT rejoinder.finish_runs_v1($1, $2, $3, $4);

-- name: release
SELECT rejoinder.release_run_v2($1, $2, $3);

-- name: retry
SELECT rejoinder.retry_run_v1($1, $2);

-- name: discard
WITH gone AS (UPDATE rejoinder.run SET held = false WHERE id = $1 AND held RETURNING id)
INSERT INTO rejoinder.event (kind, run_id, actor) SELECT 'run.discarded', id, $2 FROM gone RETURNING run_id;

-- name: of_park
SELECT {columns} FROM rejoinder.run WHERE id = (SELECT s.run_id FROM rejoinder.resume s WHERE s.park_id = $1);

-- name: going
-- Background runs that are going now, and the workers that are there to run them.
SELECT (SELECT count(*) FROM rejoinder.run WHERE state = 'running' AND door = 'tool-runs') AS runs,
       (SELECT count(*) FROM rejoinder.process
         WHERE ended_at IS NULL AND kind IN ('worker', 'up') AND beat_at > clock_timestamp() - $1::interval) AS workers;

-- name: prune_results
UPDATE rejoinder.run SET result = NULL WHERE id IN (
    SELECT id FROM rejoinder.run
     WHERE finished_at < (SELECT rejoinder.clock() - $1::interval) AND result IS NOT NULL AND NOT held
     ORDER BY finished_at LIMIT 1000);

-- name: prune
-- Runs that ended long ago, with their parks. A held run waits for an operator and is never pruned.
WITH old AS (
    DELETE FROM rejoinder.run WHERE id IN (
        SELECT id FROM rejoinder.run
         WHERE finished_at < (SELECT rejoinder.clock() - $1::interval) AND NOT held ORDER BY finished_at LIMIT 1000)
    RETURNING id
), resumes AS (
    DELETE FROM rejoinder.resume s USING old WHERE s.run_id = old.id
), parks AS (
    DELETE FROM rejoinder.park p USING old WHERE p.run_id = old.id
)
SELECT count(*) FROM old;

-- name: claim
SELECT status, run_id, lost_run FROM rejoinder.claim_call_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: told
-- The end of a call was told to its caller: the same call now means a new run, whatever becomes of requests that were
-- told it as well.
WITH ended AS MATERIALIZED (
    SELECT id FROM rejoinder.run WHERE id = $1 AND state NOT IN ('running', 'parked') FOR NO KEY UPDATE
), free AS (
    UPDATE rejoinder.run SET call_digest = NULL WHERE id IN (SELECT id FROM ended) AND call_digest IS NOT NULL
)
UPDATE rejoinder.leg SET call_digest = NULL
 WHERE run_id IN (SELECT id FROM ended) AND told_at IS NOT NULL AND call_digest IS NOT NULL;

-- name: pin_preset
-- The first that drives a run decides which version of a preset it began with.
UPDATE rejoinder.run SET preset_version = COALESCE(preset_version, $2) WHERE id = $1 RETURNING preset_version;
