-- Questions that a run puts to its caller, and runs that call runs.
--
-- A run that waits for another one waits in a question of its own that nobody is asked: a member of its park like any
-- other. So the park's count, its one resumption and its end are those of 0002, untouched.

-- depth is how many runs stand above it. A child of an epoch that has passed belongs to an attempt that is over.
ALTER TABLE rejoinder.run
    ADD COLUMN parent_run_id uuid,
    ADD COLUMN parent_epoch bigint,
    ADD COLUMN depth integer NOT NULL DEFAULT 0;
CREATE INDEX run_children ON rejoinder.run (parent_run_id) WHERE parent_run_id IS NOT NULL;

-- user: people, in the inbox. caller: the run or the client that called. run: the wait for nested_run_id.
ALTER TABLE rejoinder.question
    ADD COLUMN to_kind text NOT NULL DEFAULT 'user' CHECK (to_kind IN ('user', 'caller', 'run')),
    ADD COLUMN payload json,
    ADD COLUMN nested_run_id uuid;
CREATE INDEX question_pending_user ON rejoinder.question (timeout_at, id) WHERE state = 'pending' AND to_kind = 'user';
CREATE INDEX question_pending_caller ON rejoinder.question (asked_by, timeout_at, id)
    WHERE state = 'pending' AND to_kind = 'caller';
CREATE INDEX question_nested ON rejoinder.question (nested_run_id) WHERE nested_run_id IS NOT NULL;

-- Record a question, with the run it belongs to and the park it joins, or say why not.
-- status: recorded | limit | fenced | past
-- As v1, which refused the second of two questions that a run with a row asked at the same moment as its first.
CREATE FUNCTION rejoinder.record_question_v2(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_new_run jsonb, p_park_id uuid, p_ordinal integer,
    p_group_id text, p_mode text, p_answer_format text, p_question text, p_format_payload json, p_media jsonb,
    p_audience text, p_sensitive boolean, p_seal_key bytea, p_on_expiry text, p_tool text, p_asked_by text,
    p_owner uuid, p_timeout interval, p_expiry_at timestamptz, p_cap integer, p_cap_kind text
) RETURNS TABLE (status text, created_at timestamptz, timeout_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := rejoinder.clock();
    v_deadline timestamptz := COALESCE(p_expiry_at, v_now + p_timeout);
    v_slot integer;
    v_new integer := 0;
BEGIN
    IF v_deadline <= v_now THEN
        RETURN QUERY SELECT 'past', v_now, v_deadline;
        RETURN;
    END IF;
    -- The end of a process waits for the questions that it is just asking, and what comes after it is refused:
    -- otherwise a process that woke from a long pause could leave one that nobody would ever withdraw.
    PERFORM pg_advisory_xact_lock_shared(rejoinder.asking_key_v1(p_owner));
    IF EXISTS (SELECT FROM rejoinder.process p WHERE p.id = p_owner AND p.ended_at IS NOT NULL) THEN
        RETURN QUERY SELECT 'fenced', v_now, v_deadline;
        RETURN;
    END IF;
    IF p_new_run IS NOT NULL THEN
        INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, owner_process, epoch, starts,
                                   idempotent, trace, entered_at)
        VALUES (p_run_id, p_tool, p_new_run -> 'arguments', p_new_run ->> 'door', 'running', p_asked_by,
                (p_new_run ->> 'key_id')::uuid, p_owner, p_epoch, 1, (p_new_run ->> 'idempotent')::boolean,
                p_new_run ->> 'trace', v_now)
        ON CONFLICT (id) DO NOTHING;
        GET DIAGNOSTICS v_new = ROW_COUNT;
    END IF;
    -- FOR SHARE: a claim that raises the epoch waits for this question, and this question for the claim.
    PERFORM 1 FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'fenced', v_now, v_deadline;
        RETURN;
    END IF;
    IF p_cap IS NOT NULL THEN
        UPDATE rejoinder.slot s SET question_id = p_id
         WHERE s.kind = p_cap_kind AND s.n = (
            SELECT f.n FROM rejoinder.slot f
             WHERE f.kind = p_cap_kind AND f.question_id IS NULL AND f.n <= p_cap
             LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING s.n INTO v_slot;
        IF v_slot IS NULL THEN
            IF v_new > 0 THEN
                DELETE FROM rejoinder.run r WHERE r.id = p_run_id;
            END IF;
            RETURN QUERY SELECT 'limit', v_now, v_deadline;
            RETURN;
        END IF;
    END IF;
    IF p_park_id IS NOT NULL THEN
        -- Whichever of two that are asked at once comes first: both its id and its round may be there already.
        INSERT INTO rejoinder.park (id, run_id, round)
        VALUES (p_park_id, p_run_id,
                (SELECT COALESCE(max(o.round), 0) + 1 FROM rejoinder.park o WHERE o.run_id = p_run_id))
        ON CONFLICT DO NOTHING;
        UPDATE rejoinder.park p SET members = p.members + 1, open = p.open + 1 WHERE p.id = p_park_id;
    END IF;
    INSERT INTO rejoinder.question (
        id, run_id, park_id, ordinal, group_id, mode, answer_format, question, format_payload, media, audience,
        sensitive, seal_key, on_expiry, tool, asked_by, owner_process, slot_kind, slot, created_at,
        timeout_at)
    VALUES (
        p_id, p_run_id, p_park_id, p_ordinal, p_group_id, p_mode, p_answer_format, p_question, p_format_payload,
        p_media, p_audience, p_sensitive, p_seal_key, p_on_expiry, p_tool, p_asked_by,
        -- A parked question belongs to its run alone: while the run is not parked yet, to the run's owner.
        CASE WHEN p_park_id IS NULL THEN p_owner END,
        CASE WHEN v_slot IS NOT NULL THEN p_cap_kind END, v_slot, v_now, v_deadline);
    INSERT INTO rejoinder.event (kind, interaction_id, group_id, run_id, audience, actor)
    VALUES ('interaction.add', p_id, p_group_id, p_run_id, p_audience, p_asked_by);
    RETURN QUERY SELECT 'recorded', v_now, v_deadline;
END $$;

-- Record a question to the caller. status as record_question_v2's, and nowhere: the run that called has ended.
CREATE FUNCTION rejoinder.record_caller_v1(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_new_run jsonb, p_park_id uuid, p_ordinal integer,
    p_group_id text, p_mode text, p_answer_format text, p_question text, p_format_payload json, p_media jsonb,
    p_audience text, p_sensitive boolean, p_seal_key bytea, p_on_expiry text, p_tool text, p_asked_by text,
    p_owner uuid, p_timeout interval, p_expiry_at timestamptz, p_cap integer, p_cap_kind text, p_payload json
) RETURNS TABLE (status text, created_at timestamptz, timeout_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := rejoinder.clock();
BEGIN
    IF EXISTS (SELECT FROM rejoinder.run r JOIN rejoinder.run p ON p.id = r.parent_run_id
                WHERE r.id = p_run_id AND p.state NOT IN ('running', 'parked')) THEN
        RETURN QUERY SELECT 'nowhere', v_now, v_now;
        RETURN;
    END IF;
    RETURN QUERY SELECT r.status, r.created_at, r.timeout_at FROM rejoinder.record_question_v2(
        p_id, p_run_id, p_epoch, p_new_run, p_park_id, p_ordinal, p_group_id, p_mode, p_answer_format, p_question,
        p_format_payload, p_media, p_audience, p_sensitive, p_seal_key, p_on_expiry, p_tool, p_asked_by, p_owner,
        p_timeout, p_expiry_at, p_cap, p_cap_kind) r;
    -- Finds no row where it was refused.
    UPDATE rejoinder.question q SET to_kind = 'caller', payload = p_payload WHERE q.id = p_id;
END $$;

-- A run calls another one, which has its row before its code begins. status: started | fenced | deep
-- p_new_parent is the calling run's where it has no row yet, as in record_question_v2.
CREATE FUNCTION rejoinder.start_nested_v1(
    p_id uuid, p_tool text, p_arguments jsonb, p_idempotent boolean, p_checkpointed boolean, p_parent uuid, p_parent_epoch bigint,
    p_parent_tool text, p_new_parent jsonb, p_identity text, p_key_id uuid, p_owner uuid, p_trace text,
    p_max_depth integer
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := rejoinder.clock();
    v_depth integer;
BEGIN
    -- As for a question: the end of a process waits for what it is just starting, and what comes after is refused.
    PERFORM pg_advisory_xact_lock_shared(rejoinder.asking_key_v1(p_owner));
    IF EXISTS (SELECT FROM rejoinder.process p WHERE p.id = p_owner AND p.ended_at IS NOT NULL) THEN
        RETURN 'fenced';
    END IF;
    IF p_new_parent IS NOT NULL THEN
        INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, owner_process, epoch, starts,
                                   idempotent, trace, entered_at)
        VALUES (p_parent, p_parent_tool, p_new_parent -> 'arguments', p_new_parent ->> 'door', 'running', p_identity,
                p_key_id, p_owner, p_parent_epoch, 1, (p_new_parent ->> 'idempotent')::boolean,
                p_new_parent ->> 'trace', v_now)
        ON CONFLICT (id) DO NOTHING;
    END IF;
    SELECT r.depth INTO v_depth FROM rejoinder.run r
     WHERE r.id = p_parent AND r.epoch = p_parent_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'fenced';
    END IF;
    IF v_depth >= p_max_depth THEN
        RETURN 'deep';
    END IF;
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, owner_process, epoch, starts,
                               idempotent, checkpointed, trace, entered_at, parent_run_id, parent_epoch, depth)
    VALUES (p_id, p_tool, p_arguments, 'nested', 'running', p_identity, p_key_id, p_owner, 1, 1,
            p_idempotent, p_checkpointed, p_trace, v_now, p_parent, p_parent_epoch, v_depth + 1);
    INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
    VALUES ('run.started', p_id, p_identity, 'nested', jsonb_build_object('tool', p_tool, 'called_by', p_parent));
    RETURN 'started';
END $$;

-- A run joins the wait for one that it called to its park. status as record_question_v2's.
CREATE FUNCTION rejoinder.await_nested_v1(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_park_id uuid, p_ordinal integer, p_nested uuid, p_group_id text,
    p_question text, p_on_failure text, p_tool text, p_asked_by text, p_owner uuid, p_horizon interval
) RETURNS TABLE (status text, created_at timestamptz, timeout_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock_shared(rejoinder.asking_key_v1(p_owner));
    -- The called run may be ending at this moment: either its end finds this wait, or this wait finds its end.
    PERFORM 1 FROM rejoinder.run r WHERE r.id IN (p_run_id, p_nested) ORDER BY r.id FOR SHARE;
    RETURN QUERY SELECT r.status, r.created_at, r.timeout_at FROM rejoinder.record_question_v2(
        p_id, p_run_id, p_epoch, NULL, p_park_id, p_ordinal, p_group_id, 'async', 'free', p_question,
        NULL, NULL, NULL, false, NULL, p_on_failure, p_tool, p_asked_by, p_owner, p_horizon, NULL, NULL, NULL) r;
    UPDATE rejoinder.question q SET to_kind = 'run', nested_run_id = p_nested WHERE q.id = p_id;
    IF EXISTS (SELECT FROM rejoinder.run r
                WHERE r.id = p_nested AND r.state NOT IN ('running', 'parked') AND NOT r.held) THEN
        PERFORM rejoinder.enqueue_v1('chain', 'chain:' || p_nested::text || ':' || gen_random_uuid()::text, p_nested);
    END IF;
END $$;

-- What a run's change means for the runs around it is done by a job of its own, in a transaction of its own: one that
-- took the rows of two runs on the way from the inner to the outer would meet one on the way from the outer to the
-- inner. The job commits together with the change, so neither is ever without the other.
CREATE FUNCTION rejoinder.run_changed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A run that is held for an operator may be retried: whoever waits for it goes on waiting.
    IF NEW.parent_run_id IS NOT NULL AND NEW.state NOT IN ('running', 'parked') AND NOT NEW.held
       OR EXISTS (SELECT FROM rejoinder.run c WHERE c.parent_run_id = NEW.id AND c.state IN ('running', 'parked')) THEN
        PERFORM rejoinder.enqueue_v1('chain', 'chain:' || NEW.id::text || ':' || gen_random_uuid()::text, NEW.id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_changed AFTER UPDATE OF state, held, epoch ON rejoinder.run FOR EACH ROW
    WHEN (NEW.epoch <> OLD.epoch OR NEW.held <> OLD.held
          OR NEW.state <> OLD.state AND NEW.state NOT IN ('running', 'parked'))
    EXECUTE FUNCTION rejoinder.run_changed_v1();

-- A called run whose caller is no longer there, or has begun anew: it ends, and what it asked is withdrawn.
CREATE FUNCTION rejoinder.take_down_v1(p_run_id uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
BEGIN
    UPDATE rejoinder.run r
       SET state = 'cancelled', finished_at = rejoinder.clock(), epoch = r.epoch + 1, owner_process = NULL,
           error = jsonb_build_object('code', 'caller-gone', 'error', 'The run that called it is over.')
     WHERE r.id = p_run_id AND r.state IN ('running', 'parked');
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO rejoinder.event (kind, run_id, actor, reason)
    VALUES ('run.cancelled', p_run_id, 'system:rejoinder', 'caller gone');
    UPDATE rejoinder.resume s SET finished_at = rejoinder.clock() WHERE s.run_id = p_run_id AND s.finished_at IS NULL;
    -- Marked first, so that withdrawing the questions ends nothing more than them.
    WITH parks AS (
        SELECT p.id FROM rejoinder.park p
         WHERE p.run_id = p_run_id AND p.killed_at IS NULL AND p.completed_at IS NULL ORDER BY p.id FOR NO KEY UPDATE)
    UPDATE rejoinder.park p SET killed_at = rejoinder.clock() FROM parks k WHERE p.id = k.id;
    SELECT array_agg(q.id ORDER BY q.id) INTO v_ids FROM rejoinder.question q
     WHERE q.run_id = p_run_id AND q.state = 'pending';
    IF v_ids IS NOT NULL THEN
        PERFORM rejoinder.close_questions_v1(v_ids, 'cancelled', 'system:rejoinder', NULL, 'run ended', NULL, NULL, NULL);
    END IF;
    RETURN v_ids;
END $$;

-- Carry the end of a run to the one that waits for it, and take down what it called and nobody waits for any more. One
-- step in a call, so that a transaction holds the rows of one run only: call again until nothing is returned.
-- what: run (it changed) | question (it was closed) | resumption (a job was enqueued)
CREATE FUNCTION rejoinder.settle_chain_v1(p_run_id uuid) RETURNS TABLE (what text, id uuid) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r rejoinder.run;
    w rejoinder.question;
    v_child uuid;
    v_ids uuid[];
BEGIN
    SELECT * INTO r FROM rejoinder.run x WHERE x.id = p_run_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.parent_run_id IS NOT NULL AND r.state NOT IN ('running', 'parked') AND NOT r.held THEN
        SELECT * INTO w FROM rejoinder.question q WHERE q.nested_run_id = r.id AND q.state = 'pending';
        IF FOUND AND (r.state = 'succeeded' OR w.on_expiry = 'resume') THEN
            RETURN QUERY
                SELECT x.what, x.id FROM rejoinder.close_questions_v1(
                    ARRAY[w.id], 'answered', 'system:rejoinder', 'run', NULL,
                    CASE r.state WHEN 'succeeded' THEN COALESCE(r.result, 'null'::jsonb)
                        ELSE jsonb_build_object('tai42:run_killed', jsonb_build_object(
                            'run_id', r.id, 'status', r.state, 'error', r.error)) END,
                    NULL, NULL) k,
                LATERAL (VALUES ('question', k.id), ('run', k.run_id),
                                ('resumption', CASE WHEN k.resumes THEN k.park_id END)) AS x (what, id)
                 WHERE x.id IS NOT NULL;
        ELSIF w.id IS NOT NULL THEN
            PERFORM 1 FROM rejoinder.run x WHERE x.id = w.run_id FOR NO KEY UPDATE;
            PERFORM 1 FROM rejoinder.park p WHERE p.id = w.park_id FOR NO KEY UPDATE;
            v_ids := rejoinder.kill_parks_v1(
                ARRAY[w.park_id], CASE r.state WHEN 'cancelled' THEN 'cancelled' ELSE 'called run failed' END,
                'system:rejoinder');
            UPDATE rejoinder.run x
               SET error = jsonb_build_object(
                    'code', COALESCE(r.error ->> 'code', 'run-failed'),
                    'error', 'It waited for a run of ' || r.tool || ' that it had called, and that one ended: '
                             || COALESCE(r.error ->> 'error', r.state))
             WHERE x.id = w.run_id AND x.state IN ('failed', 'cancelled')
               AND EXISTS (SELECT FROM rejoinder.park p WHERE p.id = w.park_id AND p.killed_at IS NOT NULL);
            RETURN QUERY SELECT 'run', w.run_id UNION ALL SELECT 'question', i FROM unnest(v_ids) AS i;
        END IF;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT x.id INTO v_child FROM rejoinder.run x
     WHERE x.parent_run_id = p_run_id AND x.state IN ('running', 'parked')
       AND (r.state NOT IN ('running', 'parked')
            -- Of an attempt that is over; one that goes on from a checkpoint still waits for it.
            OR x.parent_epoch < r.epoch AND NOT EXISTS (
                SELECT FROM rejoinder.question q WHERE q.nested_run_id = x.id AND q.state = 'pending'))
     ORDER BY x.id LIMIT 1;
    IF FOUND THEN
        v_ids := rejoinder.take_down_v1(v_child);
        RETURN QUERY SELECT 'run', v_child UNION ALL SELECT 'question', i FROM unnest(v_ids) AS i;
    END IF;
END $$;
