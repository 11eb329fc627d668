-- Doors that stand open only where an operator said so, and tools that run at set times.

-- A public door outside /api that needs this row where access control is on. pattern is a path, or a stem with /*.
CREATE TABLE rejoinder.public_route (
    pattern     text PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by  text NOT NULL
);

-- What a run is about, in its starter's own words: a customer, an order.
ALTER TABLE rejoinder.run ADD COLUMN subject text;
CREATE INDEX run_subject ON rejoinder.run (subject, created_at DESC, id) WHERE subject IS NOT NULL;

-- As v2, for runs with and without a subject.
CREATE FUNCTION rejoinder.start_run_v3(
    p_id uuid, p_tool text, p_arguments jsonb, p_door text, p_identity text, p_key_id uuid, p_idempotent boolean,
    p_trace text, p_checkpointed boolean, p_subject text
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz;
BEGIN
    v_at := rejoinder.start_run_v2(p_id, p_tool, p_arguments, p_door, p_identity, p_key_id, p_idempotent, p_trace,
                                   p_checkpointed);
    IF p_subject IS NOT NULL THEN
        UPDATE rejoinder.run r SET subject = p_subject WHERE r.id = p_id;
    END IF;
    RETURN v_at;
END $$;

-- A tool that runs at set times. cadence NULL: once. digest is what the whole order comes to: the same one again is no
-- other one. next_run_at NULL: it does not run any more, or is disabled. key_id is the key that it runs under, NULL only
-- where it was made without access control.
CREATE TABLE rejoinder.schedule (
    id             uuid PRIMARY KEY,
    name           text NOT NULL UNIQUE,
    tool           text NOT NULL,
    tool_kwargs    jsonb NOT NULL,
    cadence        jsonb,
    missed         text NOT NULL DEFAULT 'once' CHECK (missed IN ('once', 'skip', 'all')),
    start_expr     text,
    subject        text,
    digest         bytea NOT NULL,
    identity       text NOT NULL,
    key_id         uuid,
    execution_key  text,
    enabled        boolean NOT NULL DEFAULT true,
    anchor_at      timestamptz NOT NULL,
    next_run_at    timestamptz,
    last_slot_at   timestamptz,
    last_run_id    uuid,
    error          text,
    created_at     timestamptz NOT NULL,
    created_by     text NOT NULL,
    CHECK (enabled OR next_run_at IS NULL)
) WITH (fillfactor = 70);
CREATE INDEX schedule_due ON rejoinder.schedule (next_run_at, id) WHERE next_run_at IS NOT NULL;

-- One slot of a schedule: its primary key is what makes it once, for ever. No run: error says why, or, where that is
-- empty too, the schedule's expression wanted none. There is no foreign key: looking one up costs as much as the row, and
-- the slots of a schedule that was deleted go when they are old.
CREATE TABLE rejoinder.schedule_slot (
    schedule_id  uuid NOT NULL,
    slot_at      timestamptz NOT NULL,
    run_id       uuid,
    error        text,
    taken_at     timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, slot_at)
);
CREATE INDEX schedule_slot_taken ON rejoinder.schedule_slot USING brin (taken_at);

-- Take the turns of schedules that are due: their slots, the runs of those with the jobs, and when each is due next, all
-- together. A schedule that another process has taken, or that was changed since it was read, is left alone: it is known
-- by the slot that it waited for. Returns how many were taken and how many runs began.
-- p_slots[i] NULL: the slots up to p_next[i] are let go. p_runs[i] NULL: nothing is started, for p_errors[i]'s reason.
-- p_arguments[i] NULL: the schedule's own. p_let_go holds the first and the last slot that is not run, as JSON.
CREATE FUNCTION rejoinder.take_turns_v1(
    p_ids uuid[], p_due timestamptz[], p_slots timestamptz[], p_next timestamptz[], p_runs uuid[], p_arguments jsonb[],
    p_idempotent boolean[], p_checkpointed boolean[], p_errors text[], p_let_go jsonb[]
) RETURNS TABLE (taken bigint, started bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := rejoinder.clock();
    v_keys text[];
    v_runs uuid[];
BEGIN
    WITH given AS (
        SELECT * FROM unnest(p_ids, p_due, p_slots, p_next, p_runs, p_arguments, p_idempotent, p_checkpointed, p_errors,
                             p_let_go)
               AS g (id, due_at, slot_at, next_at, run_id, arguments, idempotent, checkpointed, error, let_go)
    ), mine AS MATERIALIZED (
        SELECT g.*, s.name, s.tool, s.tool_kwargs, s.identity, s.key_id, s.subject
          FROM given g JOIN rejoinder.schedule s ON s.id = g.id AND s.next_run_at = g.due_at
         ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED
    ), fresh AS MATERIALIZED (
        -- A slot that was taken already, before a clock or a row was set back, stays as it is and starts nothing.
        SELECT m.* FROM mine m WHERE m.slot_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM rejoinder.schedule_slot t WHERE t.schedule_id = m.id AND t.slot_at = m.slot_at)
    ), moved AS (
        UPDATE rejoinder.schedule s
           SET next_run_at = m.next_at, error = m.error, last_slot_at = COALESCE(m.slot_at, s.last_slot_at),
               last_run_id = COALESCE(m.run_id, s.last_run_id)
          FROM mine m WHERE s.id = m.id
    ), slots AS (
        INSERT INTO rejoinder.schedule_slot (schedule_id, slot_at, run_id, error, taken_at)
        SELECT f.id, f.slot_at, f.run_id, f.error, v_now FROM fresh f
    ), begun AS (
        INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, idempotent, checkpointed, subject)
        SELECT f.run_id, f.tool, COALESCE(f.arguments, f.tool_kwargs), 'schedules', 'running', f.identity, f.key_id,
               f.idempotent, f.checkpointed, f.subject
          FROM fresh f WHERE f.run_id IS NOT NULL
        RETURNING id
    ), told AS (
        INSERT INTO rejoinder.event (kind, run_id, actor, via, reason, detail)
        SELECT 'run.started', f.run_id, f.identity, 'schedules', NULL,
               jsonb_build_object('tool', f.tool, 'schedule', f.name, 'slot_at', f.slot_at)
          FROM fresh f WHERE f.run_id IS NOT NULL
        UNION ALL
        SELECT 'schedule.refused', NULL, f.identity, 'schedules', f.error,
               jsonb_build_object('schedule', f.name, 'slot_at', f.slot_at)
          FROM fresh f WHERE f.run_id IS NULL AND f.error IS NOT NULL
        UNION ALL
        SELECT 'schedule.missed', NULL, m.identity, 'schedules', NULL, m.let_go || jsonb_build_object('schedule', m.name)
          FROM mine m WHERE m.let_go IS NOT NULL
    )
    SELECT (SELECT count(*) FROM mine), array_agg('run:' || b.id::text), array_agg(b.id)
      INTO taken, v_keys, v_runs FROM begun b;
    started := COALESCE(cardinality(v_runs), 0);
    IF started > 0 THEN
        PERFORM rejoinder.enqueue_v1('run', v_keys, v_runs);
    END IF;
    RETURN NEXT;
END $$;
