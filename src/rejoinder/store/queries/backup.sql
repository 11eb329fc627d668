-- name: contents
-- What a database holds, as one line of JSON, for the one who restores it.
SELECT json_build_object(
    'questions', (SELECT count(*) FROM rejoinder.question),
    'open_questions', (SELECT count(*) FROM rejoinder.question WHERE state = 'pending'),
    'runs', (SELECT count(*) FROM rejoinder.run),
    'parked_runs', (SELECT count(*) FROM rejoinder.run WHERE state = 'parked'),
    'keys', (SELECT count(*) FROM rejoinder.api_key WHERE revoked_at IS NULL),
    'migration', (SELECT max(number) FROM rejoinder.migration),
    'last_event_at', (SELECT max(at) FROM rejoinder.event)
);

-- name: others
-- How many clients besides this one are connected to the database with that name.
SELECT count(*) FROM pg_stat_activity
 WHERE datname = 'rejoinder' AND backend_type = 'client backend' AND pid <> pg_backend_pid();

-- name: is_ours
SELECT to_regclass('rejoinder.migration') IS NOT NULL AND to_regclass('rejoinder.question') IS NOT NULL;

-- name: end_sessions
-- A browser session or sign-in link that was ended after the backup was made must not come to life again.
WITH ended AS (UPDATE rejoinder.browser_session SET ended_at = clock_timestamp() WHERE ended_at IS NULL)
UPDATE rejoinder.sign_in SET used_at = clock_timestamp() WHERE used_at IS NULL;

-- name: swap
-- Both or neither; refused by Postgres while anybody is connected to either.
BEGIN;
ALTER DATABASE rejoinder RENAME TO rejoinder_before;
ALTER DATABASE rejoinder_restored RENAME TO rejoinder;
COMMIT;
