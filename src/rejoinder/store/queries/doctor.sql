-- What `rejoinder doctor` looks at. Nothing here writes.

-- name: server
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS number,
       clock_timestamp() AS now, current_setting('max_connections')::integer AS connections,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connected,
       pg_is_in_recovery() AS standby, current_setting('fsync') AS fsync,
       pg_database_size(current_database()) AS size;

-- name: queue
SELECT count(*) FILTER (WHERE status::text = 'queued' AND execute_after <= clock_timestamp()) AS waiting,
       count(*) FILTER (WHERE status::text = 'picked') AS picked,
       count(*) FILTER (WHERE status::text NOT IN ('queued', 'picked')) AS held,
       extract(epoch FROM clock_timestamp() - min(execute_after)
               FILTER (WHERE status::text = 'queued' AND execute_after <= clock_timestamp()))::float AS oldest
  FROM rejoinder.pgqueuer;

-- name: processes
SELECT kind, host, pid, version, extract(epoch FROM clock_timestamp() - beat_at)::float AS silent
  FROM rejoinder.process WHERE ended_at IS NULL ORDER BY started_at;

-- name: slots
SELECT count(*) AS known, count(question_id) AS used FROM rejoinder.slot WHERE kind = 'user';

-- name: counts
SELECT (SELECT count(*) FROM rejoinder.run WHERE held) AS held,
       (SELECT count(*) FROM rejoinder.api_key k WHERE k.revoked_at IS NULL AND 'admin' = ANY (k.grants)
           AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())) AS admins;

-- name: oldest_writer
SELECT pid, application_name AS name, extract(epoch FROM clock_timestamp() - xact_start)::float AS age
  FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL
 ORDER BY xact_start LIMIT 1;

-- name: sealed
SELECT EXISTS (SELECT FROM rejoinder.sealing_key WHERE purpose = $1);

-- name: closed
-- Doors of outside systems that something waits behind and that no row opens. A topic that a link leads to needs no door
-- of its own.
WITH link AS (
    SELECT topic FROM rejoinder.trigger_link
     WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > rejoinder.clock())
), door AS (
    SELECT DISTINCT '/universal_webhook/' || topic AS door, '/universal_webhook/*' AS whole FROM rejoinder.hook
     WHERE topic NOT IN (SELECT topic FROM link)
    UNION ALL
    SELECT '/trigger/*', '/trigger/*' WHERE EXISTS (SELECT FROM link)
)
SELECT door FROM door
 WHERE NOT EXISTS (SELECT FROM rejoinder.public_route r WHERE r.pattern IN (door.door, door.whole))
 ORDER BY door LIMIT 20;

-- name: schedules
SELECT count(*) FILTER (WHERE enabled AND error IS NOT NULL) AS failing,
       count(*) FILTER (WHERE next_run_at < rejoinder.clock() - interval '1 minute') AS late
  FROM rejoinder.schedule;
