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
