-- name: add_key
INSERT INTO rejoinder.api_key (id, name, identity, grants, owner_id, digest, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: key_columns
k.id, k.name, k.identity, k.grants, k.owner_id, o.name AS owner, k.created_at, k.created_by, k.expires_at, k.revoked_at,
o.grants AS owner_grants,
k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
  AND (k.owner_id IS NULL OR (o.revoked_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > clock_timestamp()))) AS live

-- name: key_by_digest
SELECT {columns} FROM rejoinder.api_key k LEFT JOIN rejoinder.api_key o ON o.id = k.owner_id WHERE k.digest = $1;

-- name: key_by_id
SELECT {columns} FROM rejoinder.api_key k LEFT JOIN rejoinder.api_key o ON o.id = k.owner_id WHERE k.id = $1;

-- name: key_by_name
SELECT {columns} FROM rejoinder.api_key k LEFT JOIN rejoinder.api_key o ON o.id = k.owner_id
 WHERE k.name = $1 AND k.revoked_at IS NULL;

-- name: keys
SELECT {columns} FROM rejoinder.api_key k LEFT JOIN rejoinder.api_key o ON o.id = k.owner_id
 WHERE $1 OR k.revoked_at IS NULL ORDER BY k.created_at, k.id;

-- name: revoke_key
UPDATE rejoinder.api_key SET revoked_at = clock_timestamp(), revoked_by = $2
 WHERE (id = $1 OR owner_id = $1) AND revoked_at IS NULL RETURNING id, name;

-- name: any_admin
SELECT EXISTS (SELECT FROM rejoinder.api_key
 WHERE revoked_at IS NULL AND 'admin' = ANY (grants) AND (expires_at IS NULL OR expires_at > clock_timestamp()));

-- name: add_sign_in
INSERT INTO rejoinder.sign_in (digest, key_id, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval);

-- name: use_sign_in
UPDATE rejoinder.sign_in SET used_at = clock_timestamp()
 WHERE digest = $1 AND used_at IS NULL AND expires_at > clock_timestamp() RETURNING key_id;

-- name: add_session
INSERT INTO rejoinder.browser_session (digest, key_id, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval);

-- name: session_key
SELECT key_id FROM rejoinder.browser_session
 WHERE digest = $1 AND ended_at IS NULL AND expires_at > clock_timestamp();

-- name: end_session
UPDATE rejoinder.browser_session SET ended_at = clock_timestamp() WHERE digest = $1 AND ended_at IS NULL;

-- name: prune
WITH links AS (DELETE FROM rejoinder.sign_in WHERE expires_at < clock_timestamp() - interval '1 day')
DELETE FROM rejoinder.browser_session WHERE expires_at < clock_timestamp() - interval '1 day';
