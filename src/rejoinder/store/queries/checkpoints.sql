-- Run by the checkpointer's own driver, whose parameters are %s.

-- name: hold
SELECT rejoinder.hold_run_v1(%s, %s);

-- name: lock
-- One process at a time makes or upgrades the tables. Tried and not waited for: an index that is built concurrently
-- waits for every statement under way, one that waits for this lock among them.
SELECT pg_try_advisory_lock(7355608, 4) AS locked;

-- name: unlock
SELECT pg_advisory_unlock(7355608, 4);

-- name: make_schema
CREATE SCHEMA IF NOT EXISTS rejoinder_checkpoints;

-- name: bound
-- How long this transaction may be idle, and where the server knows that (17), how long it may take: one that stops
-- between two messages of a pipeline is not idle.
SELECT set_config('idle_in_transaction_session_timeout', %s, true),
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
            THEN set_config('transaction_timeout', %s, true) END;
