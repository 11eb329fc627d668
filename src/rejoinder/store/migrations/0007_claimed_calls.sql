-- Calls that one caller may make again while it waits: the same words are the same run, on whichever process they arrive.

-- What the caller, the tool and the arguments come to. It is there until the run's end was told: after that, the same
-- call means a new run.
ALTER TABLE rejoinder.run ADD COLUMN call_digest bytea;
-- An earlier run of the same call that ended with its process.
ALTER TABLE rejoinder.run ADD COLUMN lost_run uuid;
CREATE UNIQUE INDEX run_call ON rejoinder.run (call_digest) WHERE call_digest IS NOT NULL;

-- Begin a call, or find the run that it is already. status:
--   claimed   it is new, and p_owner drives it
-- | joined    run_id goes on, or has ended and was not told yet
-- | fenced    p_owner was taken for dead and may begin nothing
-- Repeated with the same p_run_id after a lost reply, it finds what it did.
CREATE FUNCTION rejoinder.claim_call_v1(
    p_digest bytea, p_run_id uuid, p_tool text, p_arguments jsonb, p_door text, p_identity text, p_key_id uuid,
    p_owner uuid, p_idempotent boolean, p_checkpointed boolean, p_trace text, p_keep interval, p_tell_loss interval
) RETURNS TABLE (status text, run_id uuid, lost_run uuid) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r rejoinder.run;
    v_now timestamptz := rejoinder.clock();
    v_lost uuid;
BEGIN
    -- As where a question is recorded: what a process begins is over before its end, or is refused after it.
    PERFORM pg_advisory_xact_lock_shared(rejoinder.asking_key_v1(p_owner));
    IF EXISTS (SELECT FROM rejoinder.process p WHERE p.id = p_owner AND p.ended_at IS NOT NULL) THEN
        RETURN QUERY SELECT 'fenced', p_run_id, NULL::uuid;
        RETURN;
    END IF;
    -- One of two that come together inserts, the other one finds it.
    PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_digest, 'hex'), 7355609));
    SELECT * INTO r FROM rejoinder.run x WHERE x.call_digest = p_digest FOR NO KEY UPDATE;
    IF FOUND THEN
        IF r.id = p_run_id THEN
            RETURN QUERY SELECT 'claimed', r.id, r.lost_run;
            RETURN;
        END IF;
        IF r.state = 'lost' OR (r.state = 'cancelled' AND r.error ->> 'code' = 'caller-gone') THEN
            IF r.finished_at > v_now - p_tell_loss THEN
                v_lost := r.id;
            END IF;
        ELSIF r.state IN ('running', 'parked') OR r.finished_at > v_now - p_keep THEN
            RETURN QUERY SELECT 'joined', r.id, r.lost_run;
            RETURN;
        END IF;
        UPDATE rejoinder.run x SET call_digest = NULL WHERE x.id = r.id;
    END IF;
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, key_id, owner_process, epoch, starts,
                               idempotent, checkpointed, trace, entered_at, call_digest, lost_run)
    VALUES (p_run_id, p_tool, p_arguments, p_door, 'running', p_identity, p_key_id, p_owner, 1, 1,
            p_idempotent, p_checkpointed, p_trace, v_now, p_digest, v_lost);
    INSERT INTO rejoinder.event (kind, run_id, actor, via, detail)
    VALUES ('run.started', p_run_id, p_identity, p_door, jsonb_build_object('tool', p_tool));
    RETURN QUERY SELECT 'claimed', p_run_id, v_lost;
END $$;
