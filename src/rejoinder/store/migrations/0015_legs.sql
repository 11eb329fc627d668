-- An end that was told to a request which its client had given up was told to nobody.

-- One request of a call over MCP. request: what it comes to, by its caller, its session and its number. run_id: what it
-- holds on to; unknown where it was given up before it came. call_digest: the call's, from when its end was told.
-- told_at: the end was handed to this request. given_up_at: its client let go of it, or its stream broke before that.
CREATE TABLE rejoinder.leg (
    request bytea PRIMARY KEY,
    run_id uuid,
    call_digest bytea,
    created_at timestamptz NOT NULL,
    told_at timestamptz,
    given_up_at timestamptz
);
CREATE INDEX leg_told ON rejoinder.leg (run_id) WHERE told_at IS NOT NULL;
CREATE INDEX leg_created ON rejoinder.leg (created_at);

-- Whatever is written of one request is written by one at a time. In each function it is the first lock; then come the
-- call's, as where it is claimed, and the run's.
CREATE FUNCTION rejoinder.leg_key_v1(p_request bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(encode(p_request, 'hex'), 7355615)
$$;

-- A request holds on to a run from now on; true where it was given up before it came here. A number that a client uses
-- again is another request.
CREATE FUNCTION rejoinder.begin_leg_v1(p_request bytea, p_run_id uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_given_up boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.leg_key_v1(p_request));
    INSERT INTO rejoinder.leg AS l (request, run_id, created_at) VALUES (p_request, p_run_id, rejoinder.clock())
    ON CONFLICT (request) DO UPDATE
       SET run_id = EXCLUDED.run_id, created_at = EXCLUDED.created_at, call_digest = NULL, told_at = NULL,
           given_up_at = CASE WHEN l.run_id IS NULL THEN l.given_up_at END
    RETURNING given_up_at IS NOT NULL INTO v_given_up;
    RETURN v_given_up;
END $$;

-- The end of a run is handed to a request: the same call now means a new run. False, and nothing is changed, where the
-- request was given up. A run that goes on stays its call's.
CREATE FUNCTION rejoinder.tell_leg_v1(p_request bytea, p_run_id uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    r rejoinder.run;
    v_digest bytea;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.leg_key_v1(p_request));
    SELECT * INTO r FROM rejoinder.run x WHERE x.id = p_run_id FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM rejoinder.leg l WHERE l.request = p_request AND l.given_up_at IS NOT NULL) THEN
        RETURN false;
    END IF;
    IF r.id IS NULL OR r.state IN ('running', 'parked') THEN
        RETURN true;
    END IF;
    -- Where another request was told before this one, that one knows which call it was.
    SELECT COALESCE(r.call_digest, (
        SELECT l.call_digest FROM rejoinder.leg l
         WHERE l.run_id = p_run_id AND l.told_at IS NOT NULL AND l.call_digest IS NOT NULL LIMIT 1)) INTO v_digest;
    INSERT INTO rejoinder.leg (request, run_id, call_digest, created_at, told_at)
    VALUES (p_request, p_run_id, v_digest, rejoinder.clock(), rejoinder.clock())
    ON CONFLICT (request) DO UPDATE
       SET run_id = EXCLUDED.run_id, call_digest = EXCLUDED.call_digest, told_at = EXCLUDED.told_at;
    UPDATE rejoinder.run x SET call_digest = NULL WHERE x.id = p_run_id AND x.call_digest IS NOT NULL;
    RETURN true;
END $$;

-- A request's client let go of it: the run that it held on to, if that is known. If its end was told to this request
-- and to no other one that stands, the same call is answered with it again, unless that call is a new run already.
CREATE FUNCTION rejoinder.give_up_leg_v1(p_request bytea) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    l rejoinder.leg;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.leg_key_v1(p_request));
    SELECT * INTO l FROM rejoinder.leg x WHERE x.request = p_request;
    IF NOT FOUND THEN
        INSERT INTO rejoinder.leg (request, created_at, given_up_at)
        VALUES (p_request, rejoinder.clock(), rejoinder.clock());
        RETURN NULL;
    END IF;
    IF l.given_up_at IS NOT NULL THEN
        RETURN l.run_id;
    END IF;
    IF l.call_digest IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(encode(l.call_digest, 'hex'), 7355609));
    END IF;
    PERFORM FROM rejoinder.run r WHERE r.id = l.run_id FOR NO KEY UPDATE;
    UPDATE rejoinder.leg x SET given_up_at = rejoinder.clock() WHERE x.request = p_request
    -- Read anew: what was told otherwise meanwhile took it away.
    RETURNING x.call_digest INTO l.call_digest;
    IF l.call_digest IS NOT NULL
       AND NOT EXISTS (SELECT FROM rejoinder.leg x
                        WHERE x.run_id = l.run_id AND x.told_at IS NOT NULL AND x.given_up_at IS NULL)
       AND NOT EXISTS (SELECT FROM rejoinder.run r WHERE r.call_digest = l.call_digest) THEN
        UPDATE rejoinder.run r SET call_digest = l.call_digest WHERE r.id = l.run_id;
    END IF;
    RETURN l.run_id;
END $$;
