-- What events from outside start: the verifier of a topic, the hooks on it, and links that anybody may post to.

-- Topics that only signed deliveries reach. A topic without a row here is open. config names environment variables;
-- it never holds a secret.
CREATE TABLE rejoinder.topic_binding (
    topic     text PRIMARY KEY CHECK (topic ~ '^[a-z0-9][a-z0-9_-]{0,119}$'),
    verifier  text NOT NULL,
    config    jsonb NOT NULL DEFAULT '{}',
    bound_at  timestamptz NOT NULL,
    bound_by  text NOT NULL
);

-- A tool that runs on the events of a topic. key_id is the execution key's fingerprint: a key that was revoked and
-- minted again under the same name is another one. by_admin and internal tell what the last writer was allowed and did:
-- internal is a hook whose tool no caller may run.
CREATE TABLE rejoinder.hook (
    name           text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,119}$'),
    topic          text NOT NULL CHECK (topic ~ '^[a-z0-9][a-z0-9_-]{0,119}$'),
    tool           text NOT NULL,
    execution_key  text,
    key_id         uuid,
    tool_kwargs    jsonb NOT NULL DEFAULT '{}',
    condition      text,
    start_expr     text,
    cancel_expr    text,
    resume_expr    text,
    extras_expr    text,
    subject        text,
    state_binding  jsonb,
    by_admin       boolean NOT NULL DEFAULT false,
    internal       boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,
    created_by     text NOT NULL,
    updated_at     timestamptz NOT NULL,
    updated_by     text NOT NULL
);
CREATE INDEX hook_topic ON rejoinder.hook (topic, name);

-- A public address that posts to a topic, known by the SHA-256 of its token. A revoked one stays for ever: nothing that
-- brings rows back can make its token count again. Its name is free from then on.
CREATE TABLE rejoinder.trigger_link (
    id               uuid PRIMARY KEY,
    name             text NOT NULL,
    digest           bytea NOT NULL UNIQUE,
    topic            text NOT NULL CHECK (topic ~ '^[a-z0-9][a-z0-9_-]{0,119}$'),
    execution_key    text NOT NULL,
    key_id           uuid NOT NULL,
    tool_kwargs      jsonb NOT NULL DEFAULT '{}',
    require_api_key  boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL,
    created_by       text NOT NULL,
    expires_at       timestamptz,
    revoked_at       timestamptz,
    revoked_by       text
);
CREATE UNIQUE INDEX trigger_link_name ON rejoinder.trigger_link (name) WHERE revoked_at IS NULL;
CREATE INDEX trigger_link_topic ON rejoinder.trigger_link (topic) WHERE revoked_at IS NULL;

-- The advisory lock of a topic. Whoever binds or unbinds it, registers a hook on it or mints a link to it takes it
-- exclusively, whoever accepts a delivery for it takes it shared: none of them sees half of another.
CREATE FUNCTION rejoinder.topic_key_v1(p_topic text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT hashtextextended(p_topic, 7355610) $$;

-- The advisory lock of a hook's name, taken before that of a topic.
CREATE FUNCTION rejoinder.hook_key_v1(p_name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT hashtextextended(p_name, 7355611) $$;

CREATE FUNCTION rejoinder.bind_topic_v1(p_topic text, p_verifier text, p_config jsonb, p_by text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_before text;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.topic_key_v1(p_topic));
    SELECT b.verifier INTO v_before FROM rejoinder.topic_binding b WHERE b.topic = p_topic;
    INSERT INTO rejoinder.topic_binding (topic, verifier, config, bound_at, bound_by)
    VALUES (p_topic, p_verifier, p_config, rejoinder.clock(), p_by)
    ON CONFLICT (topic) DO UPDATE SET verifier = EXCLUDED.verifier, config = EXCLUDED.config,
                                      bound_at = EXCLUDED.bound_at, bound_by = EXCLUDED.bound_by;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('verifier.bound', p_by,
            jsonb_build_object('topic', p_topic, 'verifier', p_verifier, 'replaced', v_before));
END $$;

-- status: unbound | absent | hooked (hooks names up to 20 that live on the topic: it stays bound)
CREATE FUNCTION rejoinder.unbind_topic_v1(p_topic text, p_by text)
RETURNS TABLE (status text, hooks text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_hooks text[];
    v_verifier text;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.topic_key_v1(p_topic));
    IF NOT EXISTS (SELECT FROM rejoinder.topic_binding b WHERE b.topic = p_topic) THEN
        RETURN QUERY SELECT 'absent', NULL::text[];
        RETURN;
    END IF;
    SELECT array_agg(x.name) INTO v_hooks
      FROM (SELECT h.name FROM rejoinder.hook h WHERE h.topic = p_topic ORDER BY h.name LIMIT 20) x;
    IF v_hooks IS NOT NULL THEN
        RETURN QUERY SELECT 'hooked', v_hooks;
        RETURN;
    END IF;
    DELETE FROM rejoinder.topic_binding b WHERE b.topic = p_topic RETURNING b.verifier INTO v_verifier;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('verifier.unbound', p_by, jsonb_build_object('topic', p_topic, 'verifier', v_verifier));
    RETURN QUERY SELECT 'unbound', NULL::text[];
END $$;

-- Write a hook by its name. p_internal names the tools that no caller may run, as the writer's process knows them.
-- status: created | replaced
-- | fenced   it is a hook of an internal tool, before or after, and the writer is no admin
-- | open     its tool is internal, and no verifier stands before the topic
CREATE FUNCTION rejoinder.register_hook_v1(
    p_name text, p_topic text, p_tool text, p_execution_key text, p_key_id uuid, p_tool_kwargs jsonb,
    p_condition text, p_start_expr text, p_cancel_expr text, p_resume_expr text, p_extras_expr text,
    p_subject text, p_state_binding jsonb, p_internal text[], p_admin boolean, p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_before rejoinder.hook;
    v_found boolean;
    v_internal boolean := p_tool = ANY (p_internal);
    v_now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.hook_key_v1(p_name));
    PERFORM pg_advisory_xact_lock(rejoinder.topic_key_v1(p_topic));
    v_now := rejoinder.clock();
    SELECT * INTO v_before FROM rejoinder.hook h WHERE h.name = p_name;
    v_found := FOUND;
    IF NOT p_admin AND (v_internal OR (v_found AND (v_before.internal OR v_before.tool = ANY (p_internal)))) THEN
        RETURN 'fenced';
    END IF;
    IF v_internal AND NOT EXISTS (SELECT FROM rejoinder.topic_binding b WHERE b.topic = p_topic) THEN
        RETURN 'open';
    END IF;
    INSERT INTO rejoinder.hook AS h (name, topic, tool, execution_key, key_id, tool_kwargs, condition, start_expr,
                                     cancel_expr, resume_expr, extras_expr, subject, state_binding, by_admin, internal,
                                     created_at, created_by, updated_at, updated_by)
    VALUES (p_name, p_topic, p_tool, p_execution_key, p_key_id, p_tool_kwargs, p_condition, p_start_expr,
            p_cancel_expr, p_resume_expr, p_extras_expr, p_subject, p_state_binding, p_admin, v_internal,
            v_now, p_by, v_now, p_by)
    ON CONFLICT (name) DO UPDATE SET
        topic = EXCLUDED.topic, tool = EXCLUDED.tool, execution_key = EXCLUDED.execution_key, key_id = EXCLUDED.key_id,
        tool_kwargs = EXCLUDED.tool_kwargs, condition = EXCLUDED.condition, start_expr = EXCLUDED.start_expr,
        cancel_expr = EXCLUDED.cancel_expr, resume_expr = EXCLUDED.resume_expr, extras_expr = EXCLUDED.extras_expr,
        subject = EXCLUDED.subject, state_binding = EXCLUDED.state_binding, by_admin = EXCLUDED.by_admin,
        internal = EXCLUDED.internal, updated_at = EXCLUDED.updated_at, updated_by = EXCLUDED.updated_by;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('hook.registered', p_by,
            jsonb_build_object('name', p_name, 'topic', p_topic, 'tool', p_tool, 'execution_key', p_execution_key,
                               'replaced', v_found));
    RETURN CASE WHEN v_found THEN 'replaced' ELSE 'created' END;
END $$;

-- status: deleted | absent | fenced
CREATE FUNCTION rejoinder.delete_hook_v1(p_name text, p_internal text[], p_admin boolean, p_by text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_before rejoinder.hook;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.hook_key_v1(p_name));
    SELECT * INTO v_before FROM rejoinder.hook h WHERE h.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF NOT p_admin AND (v_before.internal OR v_before.tool = ANY (p_internal)) THEN
        RETURN 'fenced';
    END IF;
    DELETE FROM rejoinder.hook h WHERE h.name = p_name;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('hook.deleted', p_by,
            jsonb_build_object('name', p_name, 'topic', v_before.topic, 'tool', v_before.tool));
    RETURN 'deleted';
END $$;

-- status: minted | bound (a verifier stands before the topic: no link may pass it) | exists (the name is taken)
CREATE FUNCTION rejoinder.mint_link_v1(
    p_id uuid, p_name text, p_digest bytea, p_topic text, p_execution_key text, p_key_id uuid, p_tool_kwargs jsonb,
    p_require_api_key boolean, p_lives interval, p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(rejoinder.topic_key_v1(p_topic));
    IF EXISTS (SELECT FROM rejoinder.topic_binding b WHERE b.topic = p_topic) THEN
        RETURN 'bound';
    END IF;
    v_now := rejoinder.clock();
    INSERT INTO rejoinder.trigger_link (id, name, digest, topic, execution_key, key_id, tool_kwargs, require_api_key,
                                        created_at, created_by, expires_at)
    VALUES (p_id, p_name, p_digest, p_topic, p_execution_key, p_key_id, p_tool_kwargs, p_require_api_key,
            v_now, p_by, v_now + p_lives)
    ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'exists';
    END IF;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('link.minted', p_by,
            jsonb_build_object('name', p_name, 'topic', p_topic, 'execution_key', p_execution_key,
                               'require_api_key', p_require_api_key, 'expires_at', v_now + p_lives));
    RETURN 'minted';
END $$;

-- Whether there was such a link.
CREATE FUNCTION rejoinder.revoke_link_v1(p_name text, p_by text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_topic text;
BEGIN
    UPDATE rejoinder.trigger_link t SET revoked_at = rejoinder.clock(), revoked_by = p_by
     WHERE t.name = p_name AND t.revoked_at IS NULL RETURNING t.topic INTO v_topic;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('link.revoked', p_by, jsonb_build_object('name', p_name, 'topic', v_topic));
    RETURN true;
END $$;

-- The link behind a token, or no row: unknown, revoked, expired, its topic bound by now, or its key not the live one
-- that it was minted with. Whoever accepts what came through it holds the topic's lock and asks again.
CREATE FUNCTION rejoinder.live_link_v1(p_digest bytea) RETURNS SETOF rejoinder.trigger_link LANGUAGE sql VOLATILE AS $$
    SELECT t.* FROM rejoinder.trigger_link t
      JOIN rejoinder.api_key k ON k.id = t.key_id
      LEFT JOIN rejoinder.api_key o ON o.id = k.owner_id
     WHERE t.digest = p_digest AND t.revoked_at IS NULL
       AND (t.expires_at IS NULL OR t.expires_at > rejoinder.clock())
       AND NOT EXISTS (SELECT FROM rejoinder.topic_binding b WHERE b.topic = t.topic)
       AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
       AND (k.owner_id IS NULL OR (o.revoked_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > clock_timestamp())))
$$;
