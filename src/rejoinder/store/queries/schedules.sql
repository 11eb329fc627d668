-- name: columns
id, name, tool, tool_kwargs, cadence, missed, start_expr, subject, digest, identity, key_id, execution_key, enabled,
anchor_at, next_run_at, last_slot_at, last_run_id, error, created_at, created_by

-- name: now
SELECT rejoinder.clock();

-- name: by_name
SELECT {columns} FROM rejoinder.schedule WHERE name = $1;

-- name: page
-- By name, after $1; NULL leaves the identity out.
SELECT {columns} FROM rejoinder.schedule
 WHERE name > $1 AND ($2::text IS NULL OR identity = $2) ORDER BY name LIMIT $3;

-- name: clear
-- A run that was ordered once and has begun.
DELETE FROM rejoinder.schedule WHERE name = $1 AND digest = $2 AND cadence IS NULL AND next_run_at IS NULL AND enabled;

-- name: add
-- Nothing comes back where the name is taken.
WITH made AS (
    INSERT INTO rejoinder.schedule (id, name, tool, tool_kwargs, cadence, missed, start_expr, subject, digest, identity,
                                    key_id, execution_key, anchor_at, next_run_at, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, rejoinder.clock(), $15)
    ON CONFLICT (name) DO NOTHING
    RETURNING {columns}
), told AS (
    INSERT INTO rejoinder.event (kind, actor, via, detail)
    SELECT 'schedule.created', $15, $16, jsonb_build_object('schedule', name, 'tool', tool, 'execution_key', execution_key)
      FROM made
)
SELECT {columns} FROM made;

-- name: delete
WITH gone AS (
    DELETE FROM rejoinder.schedule WHERE id = $1 RETURNING name, tool
)
INSERT INTO rejoinder.event (kind, actor, via, detail)
SELECT 'schedule.deleted', $2, $3, jsonb_build_object('schedule', name, 'tool', tool) FROM gone RETURNING seq;

-- name: enable
-- Where it was as it is to be, only its row comes back.
WITH changed AS (
    UPDATE rejoinder.schedule SET enabled = $2, next_run_at = $3
     WHERE id = $1 AND enabled <> $2 RETURNING name
)
INSERT INTO rejoinder.event (kind, actor, via, detail)
SELECT CASE WHEN $2 THEN 'schedule.enabled' ELSE 'schedule.disabled' END, $4, $5, jsonb_build_object('schedule', name)
  FROM changed;

-- name: due
-- The tools that this process does not know are another one's. $3: how many are passed over. {kind} says whether they
-- have an expression: there is an index for either.
SELECT {columns} FROM rejoinder.schedule
 WHERE next_run_at <= $1 AND tool = ANY ($2) AND start_expr {kind}
 ORDER BY next_run_at, id OFFSET $3 LIMIT $4;

-- name: next_in
SELECT extract(epoch FROM (min(next_run_at) - rejoinder.clock()))::float8 FROM rejoinder.schedule
 WHERE next_run_at IS NOT NULL AND tool = ANY ($1) AND start_expr {kind};

-- name: take
SELECT taken, started FROM rejoinder.take_turns_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: pin_presets
-- In the transaction that took the turns: runs of turns that were another's are not there, or have theirs.
UPDATE rejoinder.run r SET preset_version = g.version FROM unnest($1::uuid[], $2::uuid[]) g (id, version)
 WHERE r.id = g.id AND r.preset_version IS NULL;

-- name: prune
-- What was ordered once and has begun, after a day; and what became of old slots, except of the last one of each.
WITH once AS (
    DELETE FROM rejoinder.schedule WHERE id IN (
        SELECT id FROM rejoinder.schedule
         WHERE cadence IS NULL AND next_run_at IS NULL AND enabled
           AND last_slot_at < (SELECT rejoinder.clock() - interval '1 day') ORDER BY last_slot_at LIMIT 1000)
    RETURNING id
), slots AS (
    DELETE FROM rejoinder.schedule_slot WHERE (schedule_id, slot_at) IN (
        SELECT t.schedule_id, t.slot_at FROM rejoinder.schedule_slot t LEFT JOIN rejoinder.schedule s ON s.id = t.schedule_id
         WHERE t.taken_at < (SELECT rejoinder.clock() - $1::interval) AND (s.id IS NULL OR t.slot_at < s.last_slot_at)
         ORDER BY t.taken_at LIMIT 1000)
    RETURNING schedule_id
)
SELECT greatest((SELECT count(*) FROM once), (SELECT count(*) FROM slots));
