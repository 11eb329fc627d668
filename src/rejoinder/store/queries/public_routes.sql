-- name: all
SELECT pattern, created_at, created_by FROM rejoinder.public_route ORDER BY pattern;

-- name: pin
-- Nothing comes back where it is pinned already.
WITH made AS (
    INSERT INTO rejoinder.public_route (pattern, created_by) VALUES ($1, $2)
    ON CONFLICT (pattern) DO NOTHING RETURNING pattern
)
INSERT INTO rejoinder.event (kind, actor, detail)
SELECT 'scope.pinned', $2, jsonb_build_object('pattern', pattern) FROM made RETURNING seq;

-- name: unpin
WITH gone AS (DELETE FROM rejoinder.public_route WHERE pattern = $1 RETURNING pattern)
INSERT INTO rejoinder.event (kind, actor, detail)
SELECT 'scope.unpinned', $2, jsonb_build_object('pattern', pattern) FROM gone RETURNING seq;
