-- name: columns
p.id, p.name, p.current, p.last, p.created_at, p.created_by, p.updated_at, p.updated_by, v.id AS version_id

-- name: page
-- By name, after $1; NULLs for all of them.
SELECT {columns} FROM rejoinder.preset p
  JOIN rejoinder.preset_version v ON v.preset_id = p.id AND v.number = p.current
 WHERE p.deleted_at IS NULL AND ($1::text IS NULL OR p.name > $1) ORDER BY p.name LIMIT $2;

-- name: by_name
SELECT {columns} FROM rejoinder.preset p
  JOIN rejoinder.preset_version v ON v.preset_id = p.id AND v.number = p.current
 WHERE p.deleted_at IS NULL AND p.name = $1;

-- name: documents
SELECT id, preset_id, number, document, created_at, created_by FROM rejoinder.preset_version WHERE id = ANY ($1);

-- name: versions
SELECT id, preset_id, number, document, created_at, created_by FROM rejoinder.preset_version
 WHERE preset_id = $1 AND ($2::integer IS NULL OR number < $2) ORDER BY number DESC LIMIT $3;

-- name: version
SELECT id, preset_id, number, document, created_at, created_by FROM rejoinder.preset_version
 WHERE preset_id = $1 AND number = $2;

-- name: tags
SELECT preset_id, tag, number FROM rejoinder.preset_tag WHERE preset_id = ANY ($1) ORDER BY tag;

-- name: create
SELECT rejoinder.create_preset_v1($1, $2, $3, $4, $5, $6);

-- name: save
SELECT rejoinder.save_preset_v1($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: roll_back
SELECT rejoinder.roll_preset_back_v1($1, $2, $3, $4, $5, $6, $7);

-- name: rename
SELECT rejoinder.rename_preset_v1($1, $2, $3, $4, $5, $6);

-- name: delete
SELECT rejoinder.delete_preset_v1($1, $2, $3, $4, $5);

-- name: tag
SELECT rejoinder.tag_preset_v1($1, $2, $3, $4);

-- name: referees
-- Hooks and schedules that name a tool.
SELECT kind, name FROM (SELECT 'hook' AS kind, name FROM rejoinder.hook WHERE tool = $1
                        UNION ALL SELECT 'schedule', name FROM rejoinder.schedule WHERE tool = $1) found
 ORDER BY 1, 2 LIMIT $2;
