-- name: columns
id, delivery_id, topic, hook, status, attempts, attempts_before, next_attempt_at, run_id, acted, acted_ids, claim_intent,
last_error, last_error_kind, created_at, failed_at

-- name: take
SELECT {columns} FROM rejoinder.take_hook_runs_v1($1, $2, $3);

-- name: next_due
-- Seconds until the next one is due, or NULL.
SELECT EXTRACT(EPOCH FROM min(next_attempt_at) - rejoinder.clock())::float8 FROM rejoinder.hook_run
 WHERE status = 'outstanding' AND next_attempt_at IS NOT NULL;

-- name: material
-- What an attempt is made of: the hook as it stands, and the event. No row where the hook left the topic.
SELECT h.name, h.tool, h.key_id, h.tool_kwargs, h.condition, h.start_expr, h.updated_at, d.payload, d.trigger_kwargs
  FROM rejoinder.hook_run r JOIN rejoinder.delivery d ON d.id = r.delivery_id
  JOIN rejoinder.hook h ON h.name = r.hook AND h.topic = r.topic
 WHERE r.id = $1;

-- name: start
SELECT rejoinder.start_hook_run_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: pin_preset
UPDATE rejoinder.run SET preset_version = COALESCE(preset_version, $2) WHERE id = $1;

-- name: skip
SELECT rejoinder.skip_hook_run_v1($1, $2, $3);

-- name: fail
SELECT rejoinder.fail_hook_run_v1($1, $2, $3, $4, $5, $6, $7, $8);

-- name: retry
SELECT rejoinder.retry_hook_run_v2($1, $2);

-- name: discard
SELECT rejoinder.discard_hook_run_v1($1, $2);

-- name: page
-- Newest first, after a place. The place of the first page is in the future.
SELECT {columns} FROM rejoinder.hook_run
 WHERE status = $1 AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC LIMIT $4;

-- name: counts
-- Capped: an exact count of a long list takes long.
SELECT (SELECT count(*) FROM (SELECT FROM rejoinder.hook_run WHERE status = 'outstanding' LIMIT $1) o) AS outstanding,
       (SELECT count(*) FROM (SELECT FROM rejoinder.hook_run WHERE status = 'failed' LIMIT $1) f) AS failed;

-- name: held
SELECT count(*) FROM (SELECT FROM rejoinder.hook_run WHERE status = 'failed' LIMIT 1000) f;
