-- What came from outside is kept before it is answered, and what hooks make of it is tried until it is done or held.

-- One event that a topic accepted. verifier names who vouched for its sender; where it is NULL anybody may have sent it.
-- The payload is json and not jsonb, which would forget its order and how its numbers were spelled. It may hold live
-- tickets: nothing lists it.
CREATE TABLE rejoinder.delivery (
    id              uuid PRIMARY KEY,
    topic           text NOT NULL,
    received_at     timestamptz NOT NULL,
    verifier        text,
    trigger         text,
    trigger_kwargs  jsonb,
    payload         json NOT NULL
);
CREATE INDEX delivery_received ON rejoinder.delivery (received_at);

-- One hook on one delivery. While it is outstanding, next_attempt_at says when a worker comes for it; it is NULL while
-- run_id goes on, whose end sets it. attempts counts what was begun, attempts_before what an operator's retry set aside.
-- acted: a run of it succeeded, parked or was lost, so nothing begins it again by itself. by_admin: how the hook stood
-- when its run was started.
CREATE TABLE rejoinder.hook_run (
    id               uuid PRIMARY KEY,
    delivery_id      uuid NOT NULL REFERENCES rejoinder.delivery (id) ON DELETE CASCADE,
    hook             text NOT NULL,
    topic            text NOT NULL,
    status           text NOT NULL DEFAULT 'outstanding'
        CHECK (status IN ('outstanding', 'acted', 'skipped', 'failed', 'discarded')),
    attempts         integer NOT NULL DEFAULT 0,
    attempts_before  integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz,
    claimed_by       uuid,
    run_id           uuid,
    acted            boolean NOT NULL DEFAULT false,
    acted_ids        uuid[] NOT NULL DEFAULT '{}',
    claim_intent     text CHECK (claim_intent IN ('start', 'resume')),
    by_admin         boolean NOT NULL DEFAULT false,
    last_error       text,
    last_error_kind  text,
    created_at       timestamptz NOT NULL,
    failed_at        timestamptz,
    ended_at         timestamptz,
    UNIQUE (delivery_id, hook)
);
CREATE INDEX hook_run_due ON rejoinder.hook_run (next_attempt_at, id)
    WHERE status = 'outstanding' AND next_attempt_at IS NOT NULL;
CREATE INDEX hook_run_open ON rejoinder.hook_run (status, created_at, id) WHERE status IN ('outstanding', 'failed');
CREATE INDEX hook_run_topic ON rejoinder.hook_run (topic) WHERE status IN ('outstanding', 'failed');
CREATE INDEX hook_run_run ON rejoinder.hook_run (run_id) WHERE run_id IS NOT NULL;

-- What people who run the deployment should see. about is the row that it is about; it is resolved once that one is.
CREATE TABLE rejoinder.notification (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind         text NOT NULL,
    about        uuid,
    text         text NOT NULL,
    created_at   timestamptz NOT NULL,
    resolved_at  timestamptz
);
CREATE INDEX notification_newest ON rejoinder.notification (created_at, id);
CREATE INDEX notification_about ON rejoinder.notification (about) WHERE resolved_at IS NULL;

-- As v1, with a priority: what waits with a higher one goes first.
CREATE FUNCTION rejoinder.enqueue_v2(p_entrypoint text, p_key text, p_payload uuid, p_priority integer)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO rejoinder.pgqueuer (priority, entrypoint, payload, dedupe_key, status)
    VALUES (p_priority, p_entrypoint, convert_to(p_payload::text, 'UTF8'), p_key, 'queued')
$$;

-- Keep an event, and one run for each hook on its topic, and count the delivery as seen: all of it or nothing. status:
--   accepted  hooks says how many run; without any, only an event that a verifier vouched for is kept
-- | seen      a delivery of this name was accepted before
-- | rebound   the topic's binding is not the one that the request was checked against
-- | gone      p_link is the digest of no link that counts now
-- | full      p_most hook runs of this open topic are not done yet
CREATE FUNCTION rejoinder.accept_delivery_v1(
    p_id uuid, p_topic text, p_verifier text, p_config jsonb, p_link bytea, p_payload json, p_claim bytea,
    p_window interval, p_most integer
) RETURNS TABLE (status text, hooks integer) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_link rejoinder.trigger_link;
    v_verifier text;
    v_config jsonb;
    v_hooks integer;
BEGIN
    -- Whoever binds the topic or registers a hook on it waits for this, and this for them.
    PERFORM pg_advisory_xact_lock_shared(rejoinder.topic_key_v1(p_topic));
    SELECT b.verifier, b.config INTO v_verifier, v_config FROM rejoinder.topic_binding b WHERE b.topic = p_topic;
    IF v_verifier IS DISTINCT FROM p_verifier OR v_config IS DISTINCT FROM p_config THEN
        RETURN QUERY SELECT 'rebound', 0;
        RETURN;
    END IF;
    IF p_link IS NOT NULL THEN
        SELECT * INTO v_link FROM rejoinder.live_link_v1(p_link) l WHERE l.topic = p_topic;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'gone', 0;
            RETURN;
        END IF;
    END IF;
    v_now := rejoinder.clock();
    IF p_claim IS NOT NULL THEN
        INSERT INTO rejoinder.seen_delivery AS d (digest, expires_at) VALUES (p_claim, v_now + p_window)
        ON CONFLICT (digest) DO UPDATE SET expires_at = EXCLUDED.expires_at WHERE d.expires_at <= v_now;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'seen', 0;
            RETURN;
        END IF;
    END IF;
    SELECT count(*) INTO v_hooks FROM rejoinder.hook h WHERE h.topic = p_topic;
    IF p_verifier IS NULL THEN
        -- Anybody may post here, so what nothing runs on is not kept, and what waits is bounded.
        IF v_hooks = 0 THEN
            RETURN QUERY SELECT 'accepted', 0;
            RETURN;
        END IF;
        PERFORM 1 FROM rejoinder.hook_run r
          WHERE r.topic = p_topic AND r.status IN ('outstanding', 'failed') OFFSET p_most - 1 LIMIT 1;
        IF FOUND THEN
            RETURN QUERY SELECT 'full', 0;
            RETURN;
        END IF;
    END IF;
    INSERT INTO rejoinder.delivery (id, topic, received_at, verifier, trigger, trigger_kwargs, payload)
    VALUES (p_id, p_topic, v_now, p_verifier, v_link.name, v_link.tool_kwargs, p_payload);
    INSERT INTO rejoinder.hook_run (id, delivery_id, hook, topic, next_attempt_at, created_at)
    SELECT gen_random_uuid(), p_id, h.name, p_topic, v_now, v_now FROM rejoinder.hook h WHERE h.topic = p_topic;
    RETURN QUERY SELECT 'accepted', v_hooks;
END $$;

-- Hook runs that are due, for p_process to look at. Nobody else comes for them before p_lease has passed or the process
-- is found dead; two that did would do no harm, as each write below says which attempt it means.
CREATE FUNCTION rejoinder.take_hook_runs_v1(p_process uuid, p_limit integer, p_lease interval)
RETURNS SETOF rejoinder.hook_run LANGUAGE plpgsql AS $$
DECLARE
    -- In a variable: the index can then end its scan at this moment.
    v_now timestamptz := rejoinder.clock();
BEGIN
    RETURN QUERY
        WITH due AS (
            SELECT r.id FROM rejoinder.hook_run r
             WHERE r.status = 'outstanding' AND r.next_attempt_at <= v_now
             ORDER BY r.next_attempt_at, r.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE rejoinder.hook_run r SET claimed_by = p_process, next_attempt_at = v_now + p_lease
          FROM due WHERE r.id = due.id RETURNING r.*;
END $$;

-- Start the run of an attempt: its row, its job and the hook run's claim commit together. status:
--   started  also where this very attempt was started before
-- | changed  the hook was written anew or deleted since p_hook_at; look at it again
-- | over     another worker was first
CREATE FUNCTION rejoinder.start_hook_run_v1(
    p_id uuid, p_attempt integer, p_hook_at timestamptz, p_run_id uuid, p_tool text, p_arguments jsonb,
    p_identity text, p_key_id uuid, p_idempotent boolean, p_checkpointed boolean, p_trace text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r rejoinder.hook_run;
    v_by_admin boolean;
BEGIN
    SELECT * INTO r FROM rejoinder.hook_run x WHERE x.id = p_id FOR NO KEY UPDATE;
    IF r.run_id = p_run_id THEN
        RETURN 'started';
    END IF;
    IF r.id IS NULL OR r.status <> 'outstanding' OR r.run_id IS NOT NULL OR r.attempts <> p_attempt - 1 THEN
        RETURN 'over';
    END IF;
    SELECT h.by_admin INTO v_by_admin FROM rejoinder.hook h
     WHERE h.name = r.hook AND h.topic = r.topic AND h.updated_at = p_hook_at;
    IF NOT FOUND THEN
        RETURN 'changed';
    END IF;
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, idempotent, checkpointed, trace)
    VALUES (p_run_id, p_tool, p_arguments, 'hooks', 'running', p_identity, p_key_id, p_idempotent, p_checkpointed, p_trace);
    INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
    VALUES ('run.started', p_run_id, p_identity, 'hooks',
            jsonb_build_object('tool', p_tool, 'hook', r.hook, 'hook_run', r.id));
    -- Behind what people have started themselves: a flood of events keeps nobody waiting.
    PERFORM rejoinder.enqueue_v2('run', 'run:' || p_run_id::text, p_run_id, -1);
    UPDATE rejoinder.hook_run x
       SET attempts = p_attempt, run_id = p_run_id, acted_ids = x.acted_ids || p_run_id, claim_intent = 'start',
           by_admin = v_by_admin, next_attempt_at = NULL, claimed_by = NULL
     WHERE x.id = p_id;
    RETURN 'started';
END $$;

-- A hook that wants nothing of this event, or is no more. False: another worker was first.
CREATE FUNCTION rejoinder.skip_hook_run_v1(p_id uuid, p_attempt integer, p_why text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rejoinder.hook_run r
       SET status = 'skipped', next_attempt_at = NULL, claimed_by = NULL, last_error = p_why, last_error_kind = NULL,
           ended_at = rejoinder.clock()
     WHERE r.id = p_id AND r.status = 'outstanding' AND r.run_id IS NULL AND r.attempts = p_attempt - 1;
    RETURN FOUND;
END $$;

-- An attempt failed: before it had a run (p_run_id NULL), or with it. It is tried again after p_again, or, where that is
-- NULL, held for an operator, who is told. p_intent says what a retry of a held one does: replay the recorded start,
-- nothing (resume), or run the hook again (NULL). status: again | held | over (another worker was first)
CREATE FUNCTION rejoinder.fail_hook_run_v1(
    p_id uuid, p_attempt integer, p_run_id uuid, p_kind text, p_error text, p_again interval, p_acted boolean, p_intent text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r rejoinder.hook_run;
    v_now timestamptz := rejoinder.clock();
BEGIN
    SELECT * INTO r FROM rejoinder.hook_run x WHERE x.id = p_id FOR NO KEY UPDATE;
    IF r.id IS NULL OR r.status <> 'outstanding' OR r.run_id IS DISTINCT FROM p_run_id OR r.next_attempt_at IS NULL
       OR r.attempts <> p_attempt - (p_run_id IS NULL)::integer THEN
        RETURN 'over';
    END IF;
    IF p_again IS NOT NULL THEN
        UPDATE rejoinder.hook_run x
           SET attempts = p_attempt, run_id = NULL, claim_intent = NULL, claimed_by = NULL, next_attempt_at = v_now + p_again,
               last_error = p_error, last_error_kind = p_kind
         WHERE x.id = p_id;
        RETURN 'again';
    END IF;
    UPDATE rejoinder.hook_run x
       SET status = 'failed', attempts = p_attempt, acted = x.acted OR p_acted, claim_intent = p_intent, claimed_by = NULL,
           next_attempt_at = NULL, last_error = p_error, last_error_kind = p_kind, failed_at = v_now
     WHERE x.id = p_id;
    INSERT INTO rejoinder.event (kind, run_id, actor, via, reason, detail)
    VALUES ('hook.failed', p_run_id, 'system:rejoinder', 'hooks', p_kind,
            jsonb_build_object('hook', r.hook, 'topic', r.topic, 'hook_run', r.id, 'attempts', p_attempt));
    INSERT INTO rejoinder.notification (kind, about, text, created_at)
    VALUES ('hooks_run_failed', r.id, 'The hook ' || r.hook || ' failed on an event of the topic ' || r.topic || ' ('
            || p_kind || '). It is held for an operator.', v_now);
    RETURN 'held';
END $$;

-- What becomes of a run becomes of its hook run, in the same transaction. A bad end is judged by a worker, who comes for
-- it at once: whether to try again depends on what kind of error it was.
CREATE FUNCTION rejoinder.hook_run_follows_v1() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := rejoinder.clock();
BEGIN
    IF NEW.state = 'succeeded' THEN
        UPDATE rejoinder.hook_run r
           SET status = 'acted', acted = true, next_attempt_at = NULL, claimed_by = NULL, claim_intent = NULL, last_error = NULL,
               last_error_kind = NULL, failed_at = NULL, ended_at = v_now
         WHERE r.run_id = NEW.id AND r.status IN ('outstanding', 'failed');
        UPDATE rejoinder.notification n SET resolved_at = v_now FROM rejoinder.hook_run r
         WHERE r.run_id = NEW.id AND n.about = r.id AND n.resolved_at IS NULL;
    ELSIF NEW.state IN ('running', 'parked') THEN
        -- Begun, or let go on by an operator after it had failed.
        UPDATE rejoinder.hook_run r
           SET status = 'outstanding', acted = r.acted OR NEW.state = 'parked', claim_intent = 'start', next_attempt_at = NULL,
               claimed_by = NULL, failed_at = NULL
         WHERE r.run_id = NEW.id AND r.status IN ('outstanding', 'failed');
        UPDATE rejoinder.notification n SET resolved_at = v_now FROM rejoinder.hook_run r
         WHERE r.run_id = NEW.id AND n.about = r.id AND n.resolved_at IS NULL;
    ELSE
        UPDATE rejoinder.hook_run r SET next_attempt_at = v_now WHERE r.run_id = NEW.id AND r.status = 'outstanding';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER hook_run_follows AFTER UPDATE OF state ON rejoinder.run FOR EACH ROW
    WHEN (NEW.door = 'hooks' AND NEW.state <> OLD.state)
    EXECUTE FUNCTION rejoinder.hook_run_follows_v1();

-- An operator's retry of a held hook run. A recorded start is replayed as it was recorded; otherwise the hook is run
-- again. status: queued | unknown | conflict | discard (it went on after an answer, and can only be discarded)
CREATE FUNCTION rejoinder.retry_hook_run_v1(p_id uuid, p_by text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r rejoinder.hook_run;
    v_run rejoinder.run;
    v_new uuid;
    v_now timestamptz;
BEGIN
    -- The run before its hook run, as everywhere.
    PERFORM 1 FROM rejoinder.run x WHERE x.id = (SELECT h.run_id FROM rejoinder.hook_run h WHERE h.id = p_id)
       FOR NO KEY UPDATE;
    SELECT * INTO r FROM rejoinder.hook_run h WHERE h.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF r.status <> 'failed' THEN
        RETURN 'conflict';
    ELSIF r.claim_intent = 'resume' THEN
        RETURN 'discard';
    END IF;
    v_now := rejoinder.clock();
    SELECT * INTO v_run FROM rejoinder.run x WHERE x.id = r.run_id;
    INSERT INTO rejoinder.event (kind, run_id, actor, detail)
    VALUES ('hook.retried', r.run_id, p_by, jsonb_build_object('hook', r.hook, 'topic', r.topic, 'hook_run', r.id));
    UPDATE rejoinder.hook_run h SET attempts_before = h.attempts WHERE h.id = p_id;
    UPDATE rejoinder.notification n SET resolved_at = v_now WHERE n.about = p_id AND n.resolved_at IS NULL;
    IF r.claim_intent = 'start' AND v_run.held THEN
        -- Its hook run follows.
        PERFORM rejoinder.retry_run_v1(v_run.id, p_by);
    ELSIF r.claim_intent = 'start' AND v_run.id IS NOT NULL THEN
        v_new := gen_random_uuid();
        INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, idempotent, checkpointed, trace)
        VALUES (v_new, v_run.tool, v_run.arguments, 'hooks', 'running', v_run.identity, v_run.key_id, v_run.idempotent,
                v_run.checkpointed, v_run.trace);
        INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
        VALUES ('run.started', v_new, v_run.identity, 'hooks',
                jsonb_build_object('tool', v_run.tool, 'hook', r.hook, 'hook_run', r.id));
        PERFORM rejoinder.enqueue_v2('run', 'run:' || v_new::text, v_new, -1);
        UPDATE rejoinder.hook_run h
           SET status = 'outstanding', attempts = h.attempts + 1, run_id = v_new, acted_ids = h.acted_ids || v_new,
               next_attempt_at = NULL, failed_at = NULL
         WHERE h.id = p_id;
    ELSE
        UPDATE rejoinder.hook_run h
           SET status = 'outstanding', acted = false, run_id = NULL, claim_intent = NULL, next_attempt_at = v_now,
               failed_at = NULL
         WHERE h.id = p_id;
    END IF;
    RETURN 'queued';
END $$;

-- status: discarded | unknown | conflict
CREATE FUNCTION rejoinder.discard_hook_run_v1(p_id uuid, p_by text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r rejoinder.hook_run;
    v_now timestamptz;
BEGIN
    PERFORM 1 FROM rejoinder.run x WHERE x.id = (SELECT h.run_id FROM rejoinder.hook_run h WHERE h.id = p_id)
       FOR NO KEY UPDATE;
    SELECT * INTO r FROM rejoinder.hook_run h WHERE h.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF r.status <> 'failed' THEN
        RETURN 'conflict';
    END IF;
    v_now := rejoinder.clock();
    UPDATE rejoinder.hook_run h SET status = 'discarded', ended_at = v_now WHERE h.id = p_id;
    UPDATE rejoinder.run x SET held = false WHERE x.id = r.run_id AND x.held;
    UPDATE rejoinder.notification n SET resolved_at = v_now WHERE n.about = p_id AND n.resolved_at IS NULL;
    INSERT INTO rejoinder.event (kind, run_id, actor, detail)
    VALUES ('hook.discarded', r.run_id, p_by, jsonb_build_object('hook', r.hook, 'topic', r.topic, 'hook_run', r.id));
    RETURN 'discarded';
END $$;

-- Runs that workers take from the queue: nobody waits for them over a connection.
CREATE FUNCTION rejoinder.is_background_v1(p_door text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
    $$ SELECT p_door IN ('tool-runs', 'hooks', 'schedules') $$;

-- As v2, for every kind of run that the queue hands on, and for the hook runs that the process was looking at.
CREATE FUNCTION rejoinder.end_process_v3(p_id uuid, p_reason text) RETURNS uuid[] LANGUAGE plpgsql AS $$
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
               held = rejoinder.is_background_v1(r.door),
               error = jsonb_build_object('code', 'run-lost', 'error', 'The process that ran it ended before it did.')
         WHERE r.id = ANY (v_runs) AND r.owner_process = p_id AND r.state = 'running' AND r.phase = 'start'
           AND (NOT rejoinder.is_background_v1(r.door) OR NOT r.idempotent)
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
    UPDATE rejoinder.hook_run h SET claimed_by = NULL, next_attempt_at = rejoinder.clock()
     WHERE h.id IN (SELECT x.id FROM rejoinder.hook_run x
                     WHERE x.status = 'outstanding' AND x.next_attempt_at IS NOT NULL AND x.claimed_by = p_id
                     ORDER BY x.id FOR NO KEY UPDATE);
    RETURN v_ids;
END $$;

-- As v2.
CREATE FUNCTION rejoinder.bury_dead_v3(p_stale interval, p_half_open interval)
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
            v_ids := rejoinder.end_process_v3(d.id, 'found dead');
            process_id := d.id;
            withdrawn := v_ids;
            RETURN NEXT;
            -- One in a transaction: the runs of a second one might stand before the questions of the first.
            EXIT;
        END IF;
    END LOOP;
END $$;
