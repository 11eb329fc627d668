-- Run by the checkpointer's own driver, whose parameters are %s.

-- name: hold
SELECT rejoinder.hold_run_v1(%s, %s);

-- name: lock
-- One process at a time makes or upgrades the tables.
SELECT pg_advisory_lock(7355608, 4);

-- name: unlock
SELECT pg_advisory_unlock(7355608, 4);
