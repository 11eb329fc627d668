-- The tables. Every name is spelled with its schema: nothing depends on a session's search_path.

-- The one clock of every deadline. A test replaces this function to move time.
CREATE FUNCTION rejoinder.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- A running process. It is dead when its session lock is free AND its beat is old; never by the lock alone.
CREATE TABLE rejoinder.process (
    id          uuid PRIMARY KEY,
    kind        text NOT NULL,
    host        text NOT NULL,
    pid         integer NOT NULL,
    version     text NOT NULL,
    lock_key    bigint NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    end_reason  text
);
CREATE INDEX process_alive ON rejoinder.process (beat_at) WHERE ended_at IS NULL;

CREATE TABLE rejoinder.api_key (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    identity    text NOT NULL,
    grants      text[] NOT NULL,
    owner_id    uuid REFERENCES rejoinder.api_key (id),
    digest      bytea NOT NULL UNIQUE,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by  text NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz,
    revoked_by  text
);
CREATE UNIQUE INDEX api_key_name ON rejoinder.api_key (name) WHERE revoked_at IS NULL;

-- A one-time link into the inbox, and the browser session that it opens. Only digests are stored.
CREATE TABLE rejoinder.sign_in (
    digest      bytea PRIMARY KEY,
    key_id      uuid REFERENCES rejoinder.api_key (id),
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz
);
CREATE TABLE rejoinder.browser_session (
    digest      bytea PRIMARY KEY,
    key_id      uuid REFERENCES rejoinder.api_key (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    ended_at    timestamptz
);

-- One run of a tool. epoch is the fencing token: it rises at every claim, and a writer with an older one writes nothing.
CREATE TABLE rejoinder.run (
    id             uuid PRIMARY KEY,
    tool           text NOT NULL,
    arguments      jsonb NOT NULL,
    door           text NOT NULL,
    state          text NOT NULL CHECK (state IN ('running', 'parked', 'succeeded', 'failed', 'lost', 'cancelled')),
    phase          text NOT NULL DEFAULT 'start' CHECK (phase IN ('start', 'resume')),
    identity       text NOT NULL,
    key_id         uuid,
    owner_process  uuid,
    epoch          bigint NOT NULL DEFAULT 0,
    entry          uuid,
    starts         integer NOT NULL DEFAULT 0,
    idempotent     boolean NOT NULL DEFAULT false,
    held           boolean NOT NULL DEFAULT false,
    result         jsonb,
    error          jsonb,
    trace          text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    entered_at     timestamptz,
    finished_at    timestamptz
);
CREATE INDEX run_newest ON rejoinder.run (created_at DESC, id);
CREATE INDEX run_tool_newest ON rejoinder.run (tool, created_at DESC, id);
CREATE INDEX run_going ON rejoinder.run (owner_process) WHERE state = 'running';
CREATE INDEX run_finished ON rejoinder.run (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX run_held ON rejoinder.run (created_at DESC, id) WHERE held;

-- One suspension of one run on one or more questions. It is complete when it is sealed and nothing is open.
CREATE TABLE rejoinder.park (
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL REFERENCES rejoinder.run (id),
    round         integer NOT NULL,
    members       integer NOT NULL DEFAULT 0,
    open          integer NOT NULL DEFAULT 0,
    sealed_at     timestamptz,
    completed_at  timestamptz,
    killed_at     timestamptz,
    UNIQUE (run_id, round)
);

-- The resumption of a park. Its primary key is what makes it once, for ever.
CREATE TABLE rejoinder.resume (
    park_id      uuid PRIMARY KEY REFERENCES rejoinder.park (id),
    run_id       uuid NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_at     timestamptz,
    finished_at  timestamptz
);

CREATE TABLE rejoinder.question (
    id              uuid PRIMARY KEY,
    run_id          uuid NOT NULL,
    park_id         uuid,
    ordinal         integer NOT NULL,
    group_id        text NOT NULL,
    mode            text NOT NULL CHECK (mode IN ('sync', 'async')),
    answer_format   text NOT NULL,
    question        text NOT NULL,
    format_payload  json,  -- not jsonb, which forgets the order of a form's fields
    media           jsonb,
    audience        text,
    sensitive       boolean NOT NULL DEFAULT false,
    seal_key        bytea,
    on_expiry       text NOT NULL DEFAULT 'kill' CHECK (on_expiry IN ('kill', 'resume')),
    tool            text NOT NULL,
    asked_by        text NOT NULL,
    owner_process   uuid,
    slot_kind       text,
    slot            integer,
    state           text NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'answered', 'expired', 'cancelled', 'undelivered', 'superseded')),
    created_at      timestamptz NOT NULL,
    timeout_at      timestamptz NOT NULL,
    answer          jsonb,
    sealed_answer   bytea,
    answer_digest   bytea,
    closed_at       timestamptz,
    closed_by       text,
    closed_via      text,
    reason          text
);
CREATE INDEX question_pending ON rejoinder.question (timeout_at, id) WHERE state = 'pending';
CREATE INDEX question_pending_audience ON rejoinder.question (audience, timeout_at, id) WHERE state = 'pending' AND audience IS NOT NULL;
CREATE INDEX question_pending_owner ON rejoinder.question (owner_process) WHERE state = 'pending' AND owner_process IS NOT NULL;
CREATE INDEX question_run ON rejoinder.question (run_id, ordinal);
CREATE INDEX question_closed ON rejoinder.question (closed_at) WHERE state <> 'pending';
CREATE INDEX question_park ON rejoinder.question (park_id) WHERE park_id IS NOT NULL;

-- A place under INTERACTIONS_MAX_CONCURRENT. Taking a row is what keeps the cap exact under a burst without a
-- lock that every asker would queue behind.
CREATE TABLE rejoinder.slot (
    kind         text NOT NULL,
    n            integer NOT NULL,
    question_id  uuid,
    PRIMARY KEY (kind, n)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);
CREATE INDEX slot_free ON rejoinder.slot (kind, n) WHERE question_id IS NULL;

-- What happened, in the order it committed: the stream and the audit trail. Readers take rows below the oldest
-- running transaction, by (xid, seq): a sequence alone loses an event whose number was drawn early and committed late.
CREATE TABLE rejoinder.event (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid             xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind            text NOT NULL,
    interaction_id  uuid,
    group_id        text,
    run_id          uuid,
    audience        text,
    actor           text,
    via             text,
    reason          text,
    detail          jsonb
);
CREATE INDEX event_order ON rejoinder.event (xid, seq);
CREATE INDEX event_interaction ON rejoinder.event (interaction_id, seq) WHERE interaction_id IS NOT NULL;
CREATE INDEX event_run ON rejoinder.event (run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX event_at ON rejoinder.event (at);
