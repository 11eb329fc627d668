-- Agents: runs that go on from checkpoints, and the steps of a run that are done once whoever carries it on.

-- A checkpointed run is entered again where it was: what it asks stays open when its worker dies, and it finds it again.
-- swept_at: its checkpoints are gone.
ALTER TABLE rejoinder.run ADD COLUMN checkpointed boolean NOT NULL DEFAULT false, ADD COLUMN swept_at timestamptz;
CREATE INDEX run_unswept ON rejoinder.run (finished_at) WHERE checkpointed AND swept_at IS NULL;

-- One step of a run, such as one call of a tool by an agent. Its id follows from the run and the call, so that code
-- that is played again finds it. round counts how often it has asked; entered: its code has begun and not ended.
CREATE TABLE rejoinder.step (
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL REFERENCES rejoinder.run (id) ON DELETE CASCADE,
    name          text NOT NULL,
    state         text NOT NULL CHECK (state IN ('entered', 'asked', 'done', 'interrupted')),
    epoch         bigint NOT NULL,
    starts        integer NOT NULL DEFAULT 1,
    round         integer NOT NULL DEFAULT 0,
    question_ids  uuid[] NOT NULL DEFAULT '{}',
    outcome       jsonb,
    entered_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz
);
CREATE INDEX step_run ON rejoinder.step (run_id);

-- Where LangGraph keeps its checkpoints. Its own code makes the tables and upgrades them.
CREATE SCHEMA rejoinder_checkpoints;

-- A write under an old epoch is refused. Called first in the transaction that writes a checkpoint: FOR SHARE makes a
-- claim that raises the epoch wait for that write, and that write for the claim.
CREATE FUNCTION rejoinder.hold_run_v1(p_run_id uuid, p_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'RJ001';
    END IF;
END $$;

-- A step's code is about to begin, or to go on with its answers (p_go_on). status:
--   entered      begin; round and question_ids say where
-- | asked        it waits for these questions
-- | done         it was done before, with this outcome
-- | interrupted  an earlier worker had entered code that may not run twice
-- | fenced       another worker drives the run
CREATE FUNCTION rejoinder.enter_step_v1(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_name text, p_repeatable boolean, p_go_on boolean
) RETURNS TABLE (status text, starts integer, round integer, question_ids uuid[], outcome jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s rejoinder.step;
BEGIN
    PERFORM 1 FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'fenced', 0, 0, '{}'::uuid[], NULL::jsonb;
        RETURN;
    END IF;
    INSERT INTO rejoinder.step (id, run_id, name, state, epoch) VALUES (p_id, p_run_id, p_name, 'entered', p_epoch)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT 'entered', 1, 0, '{}'::uuid[], NULL::jsonb;
        RETURN;
    END IF;
    SELECT * INTO s FROM rejoinder.step x WHERE x.id = p_id FOR NO KEY UPDATE;
    IF s.state = 'done' OR (s.state = 'asked' AND NOT p_go_on) THEN
        RETURN QUERY SELECT s.state, s.starts, s.round, s.question_ids, s.outcome;
        RETURN;
    END IF;
    -- In the same epoch it is this very call once more, after its reply was lost.
    IF s.state = 'entered' AND s.epoch < p_epoch AND NOT p_repeatable THEN
        UPDATE rejoinder.step x SET state = 'interrupted' WHERE x.id = p_id;
        RETURN QUERY SELECT 'interrupted', s.starts, s.round, s.question_ids, NULL::jsonb;
        RETURN;
    END IF;
    UPDATE rejoinder.step x
       SET state = 'entered', epoch = p_epoch,
           starts = CASE WHEN s.state = 'asked' THEN 1 WHEN s.epoch < p_epoch THEN s.starts + 1 ELSE s.starts END
     WHERE x.id = p_id
    RETURNING x.starts INTO s.starts;
    RETURN QUERY SELECT 'entered', s.starts, s.round, s.question_ids, NULL::jsonb;
END $$;

-- What a step came to: it asks (p_state asked, its round is p_round), or it is done. False: another worker drives the run.
CREATE FUNCTION rejoinder.record_step_v1(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_state text, p_round integer, p_question_ids uuid[], p_outcome jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE rejoinder.step s
       SET state = p_state, round = p_round, question_ids = p_question_ids, outcome = p_outcome,
           finished_at = CASE p_state WHEN 'done' THEN rejoinder.clock() END
     WHERE s.id = p_id;
    RETURN FOUND;
END $$;

-- A run that this process itself carries on, recorded before its code begins.
CREATE FUNCTION rejoinder.begin_run_v1(
    p_id uuid, p_tool text, p_arguments jsonb, p_door text, p_identity text, p_key_id uuid, p_idempotent boolean,
    p_trace text, p_process uuid
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, owner_process, epoch, starts,
                               idempotent, checkpointed, trace, entered_at)
    VALUES (p_id, p_tool, p_arguments, p_door, 'running', p_identity, p_key_id, p_process, 1, 1,
            p_idempotent, true, p_trace, rejoinder.clock())
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
        VALUES ('run.started', p_id, p_identity, p_door, jsonb_build_object('tool', p_tool));
    END IF;
END $$;

-- As v1, for runs with and without checkpoints.
CREATE FUNCTION rejoinder.start_run_v2(
    p_id uuid, p_tool text, p_arguments jsonb, p_door text, p_identity text, p_key_id uuid, p_idempotent boolean,
    p_trace text, p_checkpointed boolean
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz;
BEGIN
    v_at := rejoinder.start_run_v1(p_id, p_tool, p_arguments, p_door, p_identity, p_key_id, p_idempotent, p_trace);
    IF p_checkpointed THEN
        UPDATE rejoinder.run r SET checkpointed = true WHERE r.id = p_id;
    END IF;
    RETURN v_at;
END $$;

-- What an attempt leaves open for the next one: of a checkpointed run only the questions that blocked the old attempt are
-- withdrawn, of any other run all that its attempt had asked.
CREATE FUNCTION rejoinder.withdraw_attempt_v1(p_run_id uuid, p_reason text) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    v_ids uuid[];
BEGIN
    IF NOT EXISTS (SELECT FROM rejoinder.run r WHERE r.id = p_run_id AND r.checkpointed) THEN
        RETURN rejoinder.withdraw_run_v1(p_run_id, p_reason);
    END IF;
    SELECT array_agg(q.id ORDER BY q.id) INTO v_ids FROM rejoinder.question q
     WHERE q.run_id = p_run_id AND q.state = 'pending' AND q.park_id IS NULL;
    IF v_ids IS NOT NULL THEN
        PERFORM rejoinder.close_questions_v1(v_ids, 'cancelled', 'system:rejoinder', NULL, p_reason, NULL, NULL, NULL);
    END IF;
    RETURN v_ids;
END $$;

-- A worker takes a run: raises the fencing token and marks that the author's code is about to begin.
-- status: entered        go on, with this epoch
--       | interrupted    an earlier worker had entered code that may not run twice; the run is now held or lost
--       | exhausted      it was started too often
--       | busy           a worker that is alive drives it
--       | over           it has ended, or this resumption is done
-- p_park_id is NULL for the first phase.
-- p_entry names this call: repeated after a lost reply, it finds what it did.
CREATE FUNCTION rejoinder.enter_run_v2(
    p_run_id uuid, p_park_id uuid, p_process uuid, p_entry uuid, p_max_starts integer, p_stale interval
)
RETURNS TABLE (status text, epoch bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r rejoinder.run;
    v_phase text := CASE WHEN p_park_id IS NULL THEN 'start' ELSE 'resume' END;
    v_again boolean;
BEGIN
    SELECT * INTO r FROM rejoinder.run x WHERE x.id = p_run_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'over', 0::bigint;
        RETURN;
    END IF;
    IF r.entry = p_entry AND r.state = 'running' THEN
        RETURN QUERY SELECT 'entered', r.epoch;
        RETURN;
    END IF;
    IF p_park_id IS NULL THEN
        IF r.state <> 'running' OR r.phase <> 'start' THEN
            RETURN QUERY SELECT 'over', r.epoch;
            RETURN;
        END IF;
        v_again := r.entered_at IS NOT NULL;
    ELSE
        PERFORM 1 FROM rejoinder.resume s WHERE s.park_id = p_park_id AND s.finished_at IS NULL FOR NO KEY UPDATE;
        IF NOT FOUND OR r.state NOT IN ('parked', 'running') THEN
            RETURN QUERY SELECT 'over', r.epoch;
            RETURN;
        END IF;
        v_again := r.state = 'running';
    END IF;
    IF v_again AND r.owner_process IS NOT NULL AND EXISTS (
        SELECT FROM rejoinder.process p
         WHERE p.id = r.owner_process AND p.ended_at IS NULL AND p.beat_at > clock_timestamp() - p_stale) THEN
        RETURN QUERY SELECT 'busy', r.epoch;
        RETURN;
    END IF;
    IF v_again AND (NOT r.idempotent OR r.starts >= p_max_starts) THEN
        UPDATE rejoinder.run x
           SET state = CASE v_phase WHEN 'start' THEN 'lost' ELSE 'failed' END, held = true, epoch = x.epoch + 1,
               finished_at = rejoinder.clock(),
               error = CASE WHEN r.idempotent
                   THEN jsonb_build_object('code', 'run-exhausted', 'error',
                        'Its worker died ' || r.starts || ' times while it ran; it is held for an operator.')
                   ELSE jsonb_build_object('code', 'run-interrupted', 'error',
                        'Its worker died while it ran, and the tool is not marked idempotent, so it was not run again. '
                        'Look what it had done, then retry or discard it.') END
         WHERE x.id = p_run_id;
        INSERT INTO rejoinder.event (kind, run_id, actor, reason)
        VALUES ('run.held', p_run_id, 'system:rejoinder', CASE WHEN r.idempotent THEN 'exhausted' ELSE 'interrupted' END);
        UPDATE rejoinder.resume s SET finished_at = rejoinder.clock() WHERE s.run_id = p_run_id AND s.finished_at IS NULL;
        PERFORM rejoinder.withdraw_run_v1(p_run_id, 'asker gone');
        RETURN QUERY SELECT CASE WHEN r.idempotent THEN 'exhausted' ELSE 'interrupted' END, r.epoch + 1;
        RETURN;
    END IF;
    IF v_again THEN
        -- What the dead attempt had asked is withdrawn: this attempt asks anew, unless it can find it again.
        PERFORM rejoinder.withdraw_attempt_v1(p_run_id, 'asker gone');
    END IF;
    UPDATE rejoinder.run x
       SET state = 'running', phase = v_phase, epoch = x.epoch + 1, entry = p_entry, owner_process = p_process,
           starts = CASE WHEN v_again OR p_park_id IS NULL THEN x.starts + 1 ELSE 1 END, entered_at = rejoinder.clock()
     WHERE x.id = p_run_id;
    IF p_park_id IS NOT NULL THEN
        UPDATE rejoinder.resume s SET taken_at = rejoinder.clock() WHERE s.park_id = p_park_id;
    END IF;
    INSERT INTO rejoinder.event (kind, run_id, actor, detail)
    VALUES (CASE v_phase WHEN 'start' THEN 'run.entered' ELSE 'run.resumed' END, p_run_id, r.identity,
            jsonb_build_object('epoch', r.epoch + 1, 'process', p_process));
    RETURN QUERY SELECT 'entered', r.epoch + 1;
END $$;

-- A run that failed before the author's code began, or whose idempotent code failed, goes back for another attempt.
CREATE FUNCTION rejoinder.release_run_v2(p_run_id uuid, p_epoch bigint, p_error jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rejoinder.run r
       SET owner_process = NULL, error = p_error, epoch = r.epoch + 1,
           -- A worker that was told to stop is no fault of the run: however often, it does not use up its starts.
           starts = greatest(r.starts - CASE p_error ->> 'code' WHEN 'worker-stopped' THEN 1 ELSE 0 END, 0)
     WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rejoinder.withdraw_attempt_v1(p_run_id, 'run ended');
    PERFORM rejoinder.ensure_job_v1(p_run_id);
    RETURN true;
END $$;

-- The end of one process, found dead or stopping: what only it could have carried on is ended with it.
CREATE FUNCTION rejoinder.end_process_v2(p_id uuid, p_reason text) RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_runs uuid[];
    v_parks uuid[];
    v_ids uuid[];
BEGIN
    UPDATE rejoinder.process p SET ended_at = clock_timestamp(), end_reason = p_reason
     WHERE p.id = p_id AND p.ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(rejoinder.asking_key_v1(p_id));
    SELECT array_agg(r.id ORDER BY r.id) INTO v_runs
      FROM rejoinder.run r WHERE r.owner_process = p_id AND r.state = 'running';
    PERFORM 1 FROM rejoinder.run r WHERE r.id = ANY (v_runs) ORDER BY r.id FOR NO KEY UPDATE;
    -- Runs called over a connection, and started ones whose code may not begin again. The queue hands the others on.
    WITH ended AS (
        UPDATE rejoinder.run r
           SET state = 'lost', finished_at = rejoinder.clock(), epoch = r.epoch + 1, owner_process = NULL,
               held = r.door = 'tool-runs',
               error = jsonb_build_object('code', 'run-lost', 'error', 'The process that ran it ended before it did.')
         WHERE r.id = ANY (v_runs) AND r.owner_process = p_id AND r.state = 'running' AND r.phase = 'start'
           AND (r.door <> 'tool-runs' OR NOT r.idempotent)
        RETURNING r.id
    )
    INSERT INTO rejoinder.event (kind, run_id, actor, reason)
    SELECT 'run.lost', e.id, 'system:rejoinder', p_reason FROM ended e;
    WITH killed AS (
        UPDATE rejoinder.park p SET killed_at = rejoinder.clock()
         WHERE p.run_id = ANY (v_runs) AND p.sealed_at IS NULL AND p.killed_at IS NULL
           -- A run that goes on from a checkpoint finds its questions again.
           AND NOT EXISTS (SELECT FROM rejoinder.run r WHERE r.id = p.run_id AND r.checkpointed AND r.state = 'running')
        RETURNING p.id
    )
    SELECT array_agg(k.id) INTO v_parks FROM killed k;
    SELECT array_agg(q.id ORDER BY q.id) INTO v_ids FROM rejoinder.question q
     WHERE q.state = 'pending' AND (q.owner_process = p_id OR q.park_id = ANY (v_parks));
    IF v_ids IS NOT NULL THEN
        PERFORM rejoinder.close_questions_v1(v_ids, 'cancelled', 'system:rejoinder', NULL, 'asker gone', NULL, NULL, NULL);
    END IF;
    PERFORM rejoinder.ensure_job_v1(r.id)
       FROM rejoinder.run r WHERE r.id = ANY (v_runs) AND r.owner_process = p_id AND r.state = 'running';
    RETURN v_ids;
END $$;

-- Processes that are dead: session lock free AND beat stale, or a beat so old that the lock of a half-open
-- connection no longer counts. One call marks one of them, withdraws its questions and ends the runs that cannot go
-- on; call again until none is returned.
CREATE FUNCTION rejoinder.bury_dead_v2(p_stale interval, p_half_open interval)
RETURNS TABLE (process_id uuid, withdrawn uuid[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    d record;
    v_ids uuid[];
BEGIN
    FOR d IN
        SELECT p.id, p.lock_key, p.beat_at FROM rejoinder.process p
         WHERE p.ended_at IS NULL AND p.beat_at < clock_timestamp() - p_stale
         ORDER BY p.id FOR UPDATE SKIP LOCKED
    LOOP
        -- try_lock inside this transaction: taken means that nobody holds it.
        IF pg_try_advisory_xact_lock(d.lock_key) OR d.beat_at < clock_timestamp() - p_half_open THEN
            v_ids := rejoinder.end_process_v2(d.id, 'found dead');
            process_id := d.id;
            withdrawn := v_ids;
            RETURN NEXT;
            -- One in a transaction: the runs of a second one might stand before the questions of the first.
            EXIT;
        END IF;
    END LOOP;
END $$;
