-- name: newest
SELECT id, kind, about, text, created_at, resolved_at FROM rejoinder.notification
 WHERE (NOT $1::boolean OR resolved_at IS NULL) ORDER BY created_at DESC, id DESC LIMIT $2;

-- name: prune
DELETE FROM rejoinder.notification WHERE id IN (
    SELECT id FROM rejoinder.notification
     WHERE created_at < (SELECT rejoinder.clock() - $1::interval) AND resolved_at < rejoinder.clock() - $1::interval
     ORDER BY created_at LIMIT 1000);
