-- name: bind
SELECT rejoinder.bind_topic_v1($1, $2, $3, $4);

-- name: unbind
SELECT status, hooks FROM rejoinder.unbind_topic_v1($1, $2);

-- name: register
SELECT rejoinder.register_hook_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: delete
SELECT rejoinder.delete_hook_v1($1, $2, $3, $4);

-- name: hook_columns
h.name, h.topic, h.tool, h.execution_key, h.key_id, h.tool_kwargs, h.condition, h.start_expr, h.cancel_expr,
h.resume_expr, h.extras_expr, h.subject, h.state_binding, h.by_admin, h.internal, h.created_at, h.created_by,
h.updated_at, h.updated_by

-- name: hook
SELECT {columns} FROM rejoinder.hook h WHERE h.name = $1;

-- name: hooks
SELECT {columns} FROM rejoinder.hook h
 WHERE ($1::text IS NULL OR h.topic = $1) AND ($2::text IS NULL OR h.name > $2) ORDER BY h.name LIMIT $3;

-- name: topics
-- Topics that something is known of: a verifier stands before them, a hook runs on them, or a link posts to them.
SELECT t.topic, b.verifier, b.config, b.bound_at, b.bound_by,
       (SELECT count(*) FROM rejoinder.hook h WHERE h.topic = t.topic) AS hooks,
       (SELECT count(*) FROM rejoinder.trigger_link l WHERE l.topic = t.topic AND l.revoked_at IS NULL) AS links
  FROM (SELECT topic FROM rejoinder.topic_binding UNION SELECT topic FROM rejoinder.hook
        UNION SELECT topic FROM rejoinder.trigger_link WHERE revoked_at IS NULL) t
  LEFT JOIN rejoinder.topic_binding b ON b.topic = t.topic
 WHERE ($1::text IS NULL OR t.topic > $1) ORDER BY t.topic LIMIT $2;

-- name: topic
SELECT b.topic, b.verifier, b.config, b.bound_at, b.bound_by, 0::bigint AS hooks, 0::bigint AS links
  FROM rejoinder.topic_binding b WHERE b.topic = $1;

-- name: mint
SELECT rejoinder.mint_link_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: revoke
SELECT rejoinder.revoke_link_v1($1, $2);

-- name: links
-- Those that were not revoked, and whether they count now.
SELECT l.name, l.topic, l.execution_key, l.tool_kwargs, l.require_api_key, l.created_at, l.created_by, l.expires_at,
       CASE WHEN l.expires_at <= rejoinder.clock() THEN 'expired'
            WHEN EXISTS (SELECT FROM rejoinder.topic_binding b WHERE b.topic = l.topic) THEN 'out_of_service'
            WHEN NOT EXISTS (SELECT FROM rejoinder.live_link_v1(l.digest)) THEN 'key_gone'
            ELSE 'live' END AS status
  FROM rejoinder.trigger_link l
 WHERE l.revoked_at IS NULL AND ($1::text IS NULL OR l.topic = $1) AND ($2::text IS NULL OR l.name > $2)
   AND ($3::text IS NULL OR l.name = $3)
 ORDER BY l.name LIMIT $4;

-- name: live_link
SELECT name, topic, require_api_key FROM rejoinder.live_link_v1($1);
