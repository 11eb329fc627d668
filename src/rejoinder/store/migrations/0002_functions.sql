-- What must be one transaction is one function. A function's name ends in its version: old code keeps calling the
-- old one while new code runs beside it.
--
-- Locks are taken in one order by all of them, so that no two ever wait for each other in a ring:
-- process, run, park, question, slot; several of a kind by id.
-- FOR NO KEY UPDATE throughout: a row that is updated twice in a transaction has its foreign key looked up once more,
-- which takes FOR KEY SHARE on the run after the park. FOR UPDATE would make a ring of that.

-- Hand jobs to the queue inside the caller's transaction. The only place that knows the queue's table.
CREATE FUNCTION rejoinder.enqueue_v1(p_entrypoint text, p_keys text[], p_payloads uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO rejoinder.pgqueuer (priority, entrypoint, payload, dedupe_key, status)
    SELECT 0, p_entrypoint, convert_to(j.payload::text, 'UTF8'), j.key, 'queued'
      FROM unnest(p_keys, p_payloads) AS j (key, payload)
$$;
CREATE FUNCTION rejoinder.enqueue_v1(p_entrypoint text, p_key text, p_payload uuid) RETURNS void LANGUAGE sql AS $$
    SELECT rejoinder.enqueue_v1(p_entrypoint, ARRAY[p_key], ARRAY[p_payload])
$$;

-- The advisory lock that stands between a process' asking and its end.
CREATE FUNCTION rejoinder.asking_key_v1(p_process uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(p_process::text, 7355608)
$$;

-- Record a question, with the run it belongs to and the park it joins, or say why not.
-- status: recorded | limit | fenced | past
CREATE FUNCTION rejoinder.record_question_v1(
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
        INSERT INTO rejoinder.park AS p (id, run_id, round, members, open)
        VALUES (p_park_id, p_run_id,
                (SELECT COALESCE(max(o.round), 0) + 1 FROM rejoinder.park o WHERE o.run_id = p_run_id), 1, 1)
        ON CONFLICT (id) DO UPDATE SET members = p.members + 1, open = p.open + 1;
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

-- THE transition: the only statement anywhere that moves questions out of pending. With it, in the same transaction:
-- the event, the freed place, the park's count, the one resume job of a complete park, or the end of a killed one.
-- p_verdict: answered | expired | cancelled | undelivered | superseded
CREATE FUNCTION rejoinder.close_questions_v1(
    p_ids uuid[], p_verdict text, p_by text, p_via text, p_reason text,
    p_answer jsonb, p_sealed bytea, p_digest bytea
) RETURNS TABLE (id uuid, run_id uuid, park_id uuid, resumes boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_parks uuid[];
    v_runs uuid[];
    v_closed uuid[];
    v_kill uuid[];
    v_complete uuid[];
    v_taken uuid[];
BEGIN
    SELECT array_agg(DISTINCT q.park_id ORDER BY q.park_id), array_agg(DISTINCT q.run_id ORDER BY q.run_id)
      INTO v_parks, v_runs FROM rejoinder.question q WHERE q.id = ANY (p_ids) AND q.park_id IS NOT NULL;
    IF v_parks IS NOT NULL THEN
        IF p_verdict <> 'answered' THEN
            PERFORM 1 FROM rejoinder.run r WHERE r.id = ANY (v_runs) ORDER BY r.id FOR NO KEY UPDATE;
        END IF;
        PERFORM 1 FROM rejoinder.park p WHERE p.id = ANY (v_parks) ORDER BY p.id FOR NO KEY UPDATE;
    END IF;
    IF cardinality(p_ids) > 1 THEN
        PERFORM 1 FROM rejoinder.question q WHERE q.id = ANY (p_ids) AND q.state = 'pending' ORDER BY q.id FOR NO KEY UPDATE;
    END IF;
    -- Read once every lock is held: an answer that waited here past the deadline is too late.
    v_now := rejoinder.clock();
    WITH closed AS (
        UPDATE rejoinder.question q
           SET state = p_verdict, closed_at = v_now, closed_by = p_by, closed_via = p_via, reason = p_reason,
               answer = p_answer, sealed_answer = p_sealed, answer_digest = p_digest
         WHERE q.id = ANY (p_ids) AND q.state = 'pending'
           AND CASE p_verdict WHEN 'answered' THEN q.timeout_at > v_now
                              WHEN 'expired' THEN q.timeout_at <= v_now
                              ELSE true END
        RETURNING q.id, q.run_id, q.park_id, q.group_id, q.audience, q.slot_kind, q.slot, q.on_expiry
    ), freed AS (
        UPDATE rejoinder.slot s SET question_id = NULL
          FROM closed c WHERE s.kind = c.slot_kind AND s.n = c.slot AND s.question_id = c.id
    ), told AS (
        INSERT INTO rejoinder.event (kind, interaction_id, group_id, run_id, audience, actor, via, reason)
        SELECT CASE p_verdict WHEN 'answered' THEN 'interaction.answered' ELSE 'interaction.removed' END,
               c.id, c.group_id, c.run_id, c.audience, p_by, p_via, COALESCE(p_reason, p_verdict)
          FROM closed c
    )
    SELECT array_agg(c.id),
           array_agg(DISTINCT c.park_id) FILTER (
               WHERE p_verdict IN ('cancelled', 'undelivered') OR (p_verdict = 'expired' AND c.on_expiry = 'kill'))
      INTO v_closed, v_kill FROM closed c;
    IF v_closed IS NULL THEN
        RETURN;
    END IF;
    IF v_parks IS NOT NULL THEN
        UPDATE rejoinder.park p SET open = p.open - n.closed
          FROM (SELECT q.park_id, count(*) AS closed FROM rejoinder.question q
                 WHERE q.id = ANY (v_closed) AND q.park_id IS NOT NULL GROUP BY q.park_id) n
         -- By the ids too: a join alone is planned as a scan of every park.
         WHERE p.id = n.park_id AND p.id = ANY (v_parks);
        IF v_kill IS NOT NULL THEN
            v_taken := rejoinder.kill_parks_v1(v_kill, p_verdict, p_by);
        END IF;
        v_complete := rejoinder.complete_parks_v1(v_parks);
    END IF;
    RETURN QUERY SELECT q.id, q.run_id, q.park_id, COALESCE(q.park_id = ANY (v_complete), false)
                   FROM rejoinder.question q WHERE q.id = ANY (v_closed || v_taken);
END $$;

-- A park that is sealed and has nothing open gets its one resumption and the job that carries it.
CREATE FUNCTION rejoinder.complete_parks_v1(p_ids uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_done uuid[];
BEGIN
    WITH done AS (
        UPDATE rejoinder.park p SET completed_at = rejoinder.clock()
         WHERE p.id = ANY (p_ids) AND p.open = 0 AND p.sealed_at IS NOT NULL
           AND p.completed_at IS NULL AND p.killed_at IS NULL
        RETURNING p.id, p.run_id
    ), once AS (
        INSERT INTO rejoinder.resume (park_id, run_id) SELECT d.id, d.run_id FROM done d
    )
    SELECT array_agg(d.id) INTO v_done FROM done d;
    IF v_done IS NOT NULL THEN
        -- All in one statement: 250 lapse together.
        PERFORM rejoinder.enqueue_v1('resume', (SELECT array_agg('resume:' || d::text) FROM unnest(v_done) AS d), v_done);
    END IF;
    RETURN v_done;
END $$;

-- The end of a killed park: its run ends without being resumed, and whatever else that run asked is withdrawn, a
-- question that blocks it too. Returns what was withdrawn.
CREATE FUNCTION rejoinder.kill_parks_v1(p_ids uuid[], p_verdict text, p_by text) RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_runs uuid[];
    v_siblings uuid[];
BEGIN
    WITH killed AS (
        UPDATE rejoinder.park p SET killed_at = rejoinder.clock()
         WHERE p.id = ANY (p_ids) AND p.killed_at IS NULL AND p.completed_at IS NULL
        RETURNING p.id, p.run_id
    ), ended AS (
        UPDATE rejoinder.run r
           SET state = CASE p_verdict WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
               finished_at = rejoinder.clock(), epoch = r.epoch + 1, owner_process = NULL,
               error = CASE p_verdict
                   WHEN 'expired' THEN jsonb_build_object('code', 'interaction-expired', 'error',
                        'A question of this run lapsed unanswered. No consent was given, and the run was ended.')
                   WHEN 'undelivered' THEN jsonb_build_object('code', 'interaction-undelivered', 'error',
                        'A question of this run could not be delivered.')
                   ELSE jsonb_build_object('code', 'interaction-cancelled', 'error',
                        'A question of this run was withdrawn.') END
          FROM killed k
         WHERE r.id = k.run_id AND r.state IN ('running', 'parked')
        RETURNING r.id, r.state
    ), told AS (
        INSERT INTO rejoinder.event (kind, run_id, actor, reason)
        SELECT 'run.' || e.state, e.id, p_by, p_verdict FROM ended e
    ), closed AS (
        UPDATE rejoinder.resume s SET finished_at = rejoinder.clock()
          FROM ended e WHERE s.run_id = e.id AND s.finished_at IS NULL
    )
    SELECT (SELECT array_agg(k.id) FROM killed k), (SELECT array_agg(e.id) FROM ended e) INTO v_ids, v_runs;
    SELECT array_agg(q.id ORDER BY q.id) INTO v_siblings
      FROM rejoinder.question q
     WHERE q.state = 'pending' AND (q.park_id = ANY (v_ids) OR q.park_id IS NULL AND q.run_id = ANY (v_runs));
    IF v_siblings IS NOT NULL THEN
        PERFORM rejoinder.close_questions_v1(v_siblings, 'cancelled', p_by, NULL, 'run ended', NULL, NULL, NULL);
    END IF;
    RETURN v_siblings;
END $$;

-- Deadlines that have passed, one batch. One process at a time: the others find the lock taken and do nothing.
CREATE FUNCTION rejoinder.expire_due_v1(p_limit integer) RETURNS TABLE (id uuid, run_id uuid, park_id uuid, resumes boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- In a variable: the index can then end its scan at this moment instead of reading every open question.
    v_now timestamptz := rejoinder.clock();
    v_ids uuid[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(7355608, 1) THEN
        RETURN;
    END IF;
    SELECT array_agg(d.id) INTO v_ids FROM (
        SELECT q.id FROM rejoinder.question q
         WHERE q.state = 'pending' AND q.timeout_at <= v_now
         ORDER BY q.timeout_at, q.id LIMIT p_limit) d;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT c.id, c.run_id, c.park_id, c.resumes
      FROM rejoinder.close_questions_v1(v_ids, 'expired', 'system:expiry', NULL, 'expired', NULL, NULL, NULL) c;
END $$;

-- A run suspends on the questions it asked. status: parked | fenced | empty
CREATE FUNCTION rejoinder.seal_park_v1(p_run_id uuid, p_epoch bigint, p_park_id uuid)
RETURNS TABLE (status text, resumes boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_complete uuid[];
BEGIN
    PERFORM 1 FROM rejoinder.run r
      WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        -- Sealed by this very call before its reply was lost, or driven by somebody else.
        RETURN QUERY SELECT CASE WHEN EXISTS (
            SELECT FROM rejoinder.park p WHERE p.id = p_park_id AND p.run_id = p_run_id AND p.sealed_at IS NOT NULL)
            THEN 'parked' ELSE 'fenced' END, false;
        RETURN;
    END IF;
    UPDATE rejoinder.park p SET sealed_at = rejoinder.clock()
     WHERE p.id = p_park_id AND p.run_id = p_run_id AND p.killed_at IS NULL AND p.sealed_at IS NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'empty', false;
        RETURN;
    END IF;
    UPDATE rejoinder.run r SET state = 'parked', owner_process = NULL WHERE r.id = p_run_id;
    UPDATE rejoinder.resume s SET finished_at = rejoinder.clock() WHERE s.run_id = p_run_id AND s.finished_at IS NULL;
    INSERT INTO rejoinder.event (kind, run_id, actor) SELECT 'run.parked', p_run_id, r.identity FROM rejoinder.run r WHERE r.id = p_run_id;
    v_complete := rejoinder.complete_parks_v1(ARRAY[p_park_id]);
    RETURN QUERY SELECT 'parked', v_complete IS NOT NULL;
END $$;

-- A run started in the background: its row and its job commit together.
CREATE FUNCTION rejoinder.start_run_v1(
    p_id uuid, p_tool text, p_arguments jsonb, p_door text, p_identity text, p_key_id uuid, p_idempotent boolean, p_trace text
) RETURNS timestamptz LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at timestamptz;
BEGIN
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, idempotent, trace)
    VALUES (p_id, p_tool, p_arguments, p_door, 'running', p_identity, p_key_id, p_idempotent, p_trace)
    RETURNING created_at INTO v_at;
    INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
    VALUES ('run.started', p_id, p_identity, p_door, jsonb_build_object('tool', p_tool));
    PERFORM rejoinder.enqueue_v1('run', 'run:' || p_id::text, p_id);
    RETURN v_at;
END $$;

-- A worker takes a run: raises the fencing token and marks that the author's code is about to begin.
-- status: entered        go on, with this epoch
--       | interrupted    an earlier worker had entered code that may not run twice; the run is now held or lost
--       | exhausted      it was started too often
--       | busy           a worker that is alive drives it
--       | over           it has ended, or this resumption is done
-- p_park_id is NULL for the first phase.
-- p_entry names this call: repeated after a lost reply, it finds what it did.
CREATE FUNCTION rejoinder.enter_run_v1(
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
        -- What the dead attempt had asked is withdrawn: this attempt asks anew.
        PERFORM rejoinder.withdraw_run_v1(p_run_id, 'asker gone');
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

-- The questions of one run that are still open: sync ones, and async ones of a park that was never sealed.
-- Such a park is marked killed first, so that withdrawing its questions ends nothing more than them.
CREATE FUNCTION rejoinder.withdraw_run_v1(p_run_id uuid, p_reason text) RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
BEGIN
    UPDATE rejoinder.park p SET killed_at = rejoinder.clock()
     WHERE p.run_id = p_run_id AND p.sealed_at IS NULL AND p.killed_at IS NULL;
    SELECT array_agg(q.id ORDER BY q.id) INTO v_ids FROM rejoinder.question q
      LEFT JOIN rejoinder.park p ON p.id = q.park_id
     WHERE q.run_id = p_run_id AND q.state = 'pending' AND (q.park_id IS NULL OR p.sealed_at IS NULL);
    IF v_ids IS NOT NULL THEN
        PERFORM rejoinder.close_questions_v1(v_ids, 'cancelled', 'system:rejoinder', NULL, p_reason, NULL, NULL, NULL);
    END IF;
    RETURN v_ids;
END $$;

-- The end of a run, by the one that drives it. status: finished | fenced
CREATE FUNCTION rejoinder.finish_run_v1(
    p_run_id uuid, p_epoch bigint, p_state text, p_held boolean, p_result jsonb, p_error jsonb
) RETURNS TABLE (status text, withdrawn uuid[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
BEGIN
    UPDATE rejoinder.run r
       SET state = p_state, held = p_held, result = p_result, error = p_error, finished_at = rejoinder.clock(),
           owner_process = NULL
     WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running';
    IF NOT FOUND THEN
        -- Finished by this very call before its reply was lost, or driven by somebody else.
        RETURN QUERY SELECT CASE WHEN EXISTS (
            SELECT FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = p_state)
            THEN 'finished' ELSE 'fenced' END, NULL::uuid[];
        RETURN;
    END IF;
    UPDATE rejoinder.resume s SET finished_at = rejoinder.clock() WHERE s.run_id = p_run_id AND s.finished_at IS NULL;
    INSERT INTO rejoinder.event (kind, run_id, actor, reason)
    SELECT CASE WHEN p_held THEN 'run.held' ELSE 'run.' || p_state END, p_run_id, r.identity, p_error ->> 'code'
      FROM rejoinder.run r WHERE r.id = p_run_id;
    v_ids := rejoinder.withdraw_run_v1(p_run_id, 'run ended');
    RETURN QUERY SELECT 'finished', v_ids;
END $$;

-- The queue hands the job of a going run on. Where the job is gone all the same (the queue deletes a job whoever holds
-- it by then), the run gets a new one: a run must never be left with nobody to come for it.
CREATE FUNCTION rejoinder.ensure_job_v1(p_run_id uuid) RETURNS void LANGUAGE sql AS $$
    SELECT rejoinder.enqueue_v1(
               w.entrypoint, w.entrypoint || ':' || w.payload::text || ':' || w.epoch::text || ':again', w.payload)
      FROM (SELECT CASE WHEN s.park_id IS NULL THEN 'run' ELSE 'resume' END AS entrypoint,
                   COALESCE(s.park_id, r.id) AS payload, r.epoch
              FROM rejoinder.run r LEFT JOIN rejoinder.resume s ON s.run_id = r.id AND s.finished_at IS NULL
             WHERE r.id = p_run_id) w
     WHERE NOT EXISTS (
           SELECT FROM rejoinder.pgqueuer j
            WHERE j.entrypoint = w.entrypoint AND j.payload = convert_to(w.payload::text, 'UTF8')
              AND j.status IN ('queued', 'picked'))
$$;

-- A run that failed before the author's code began, or whose idempotent code failed, goes back for another attempt.
CREATE FUNCTION rejoinder.release_run_v1(p_run_id uuid, p_epoch bigint, p_error jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rejoinder.run r
       SET owner_process = NULL, error = p_error, epoch = r.epoch + 1,
           -- A worker that was told to stop is no fault of the run: however often, it does not use up its starts.
           starts = greatest(r.starts - CASE p_error ->> 'code' WHEN 'worker-stopped' THEN 1 ELSE 0 END, 0)
     WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rejoinder.withdraw_run_v1(p_run_id, 'run ended');
    PERFORM rejoinder.ensure_job_v1(p_run_id);
    RETURN true;
END $$;

-- An operator's retry of a held run: it goes to the queue once more. Its old job may still be on its way out of the
-- queue, so the new one has a key of its own. status: queued | conflict | unknown
CREATE FUNCTION rejoinder.retry_run_v1(p_run_id uuid, p_by text) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r rejoinder.run;
    v_park uuid;
BEGIN
    SELECT * INTO r FROM rejoinder.run x WHERE x.id = p_run_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF NOT r.held THEN
        RETURN 'conflict';
    END IF;
    IF r.phase = 'resume' THEN
        SELECT p.id INTO v_park FROM rejoinder.park p
         WHERE p.run_id = p_run_id AND p.completed_at IS NOT NULL ORDER BY p.round DESC LIMIT 1;
    END IF;
    UPDATE rejoinder.run x
       SET state = CASE WHEN v_park IS NULL THEN 'running' ELSE 'parked' END, held = false, epoch = x.epoch + 1,
           owner_process = NULL, entered_at = NULL, finished_at = NULL, error = NULL, starts = 0
     WHERE x.id = p_run_id;
    IF v_park IS NULL THEN
        PERFORM rejoinder.enqueue_v1('run', 'run:' || p_run_id::text || ':' || r.epoch, p_run_id);
    ELSE
        UPDATE rejoinder.resume s SET taken_at = NULL, finished_at = NULL WHERE s.park_id = v_park;
        PERFORM rejoinder.enqueue_v1('resume', 'resume:' || v_park::text || ':' || r.epoch, v_park);
    END IF;
    INSERT INTO rejoinder.event (kind, run_id, actor) VALUES ('run.retried', p_run_id, p_by);
    RETURN 'queued';
END $$;

-- Processes that are dead: session lock free AND beat stale, or a beat so old that the lock of a half-open
-- connection no longer counts. One call marks one of them, withdraws its questions and ends the runs that cannot go
-- on; call again until none is returned.
CREATE FUNCTION rejoinder.bury_dead_v1(p_stale interval, p_half_open interval)
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
            v_ids := rejoinder.end_process_v1(d.id, 'found dead');
            process_id := d.id;
            withdrawn := v_ids;
            RETURN NEXT;
            -- One in a transaction: the runs of a second one might stand before the questions of the first.
            EXIT;
        END IF;
    END LOOP;
END $$;

-- The end of one process, found dead or stopping: what only it could have carried on is ended with it.
CREATE FUNCTION rejoinder.end_process_v1(p_id uuid, p_reason text) RETURNS uuid[] LANGUAGE plpgsql AS $$
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

-- The ends of many runs that were called over a connection, in one statement.
CREATE FUNCTION rejoinder.finish_runs_v1(p_ids uuid[], p_epochs bigint[], p_states text[], p_errors jsonb[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
BEGIN
    SELECT array_agg(w) INTO v_ids
      FROM (SELECT * FROM unnest(p_ids, p_epochs, p_states, p_errors) AS u (id, epoch, state, error) ORDER BY u.id) e,
           LATERAL rejoinder.finish_run_v1(e.id, e.epoch, e.state, false, NULL, NULLIF(e.error, 'null'::jsonb)) f,
           LATERAL unnest(f.withdrawn) AS w;
    RETURN v_ids;
END $$;
