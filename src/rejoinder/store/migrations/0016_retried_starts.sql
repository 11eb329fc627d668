-- A start that is replayed keeps the version of the preset that it was accepted with: that very start, and no other.

-- An operator's retry of a held hook run, as before. status: queued | unknown | conflict | discard (it went on after an answer,
-- and can only be discarded)
CREATE FUNCTION rejoinder.retry_hook_run_v2(p_id uuid, p_by text) RETURNS text LANGUAGE plpgsql AS $$
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
        INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, idempotent, checkpointed, trace,
                                   preset_version)
        VALUES (v_new, v_run.tool, v_run.arguments, 'hooks', 'running', v_run.identity, v_run.key_id, v_run.idempotent,
                v_run.checkpointed, v_run.trace, v_run.preset_version);
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
