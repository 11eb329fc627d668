-- name: open
-- Open questions that match, oldest deadline first, after a place. NULL leaves a filter out.
SELECT {columns} FROM rejoinder.question
 WHERE state = 'pending' AND to_kind = 'user' AND timeout_at > rejoinder.clock() AND (timeout_at, id) > ($1, $2)
   AND ($3::text IS NULL OR audience = $3) AND ($4::text IS NULL OR group_id = $4) AND ($5::text IS NULL OR tool = $5)
   AND ($6::text IS NULL OR mode = $6) AND ($7::text IS NULL OR question ILIKE $7)
 ORDER BY timeout_at, id LIMIT $8;

-- name: closed
-- Questions that ended in one of these ways and are still kept, newest end first, before a place.
SELECT {columns} FROM rejoinder.question
 WHERE to_kind = 'user' AND state <> 'pending' AND state = ANY ($1) AND closed_at > rejoinder.clock() - $2::interval
   AND (closed_at, id) < ($3, $4)
   AND ($5::text IS NULL OR audience = $5) AND ($6::text IS NULL OR group_id = $6) AND ($7::text IS NULL OR tool = $7)
   AND ($8::text IS NULL OR mode = $8) AND ($9::text IS NULL OR question ILIKE $9)
 ORDER BY closed_at DESC, id DESC LIMIT $10;

-- name: facets
-- What the filters may offer: the tools and audiences of what is open or has ended lately. Looks at no more than $2
-- of each, so that a full inbox costs no more than a small one.
WITH recent AS (
    (SELECT tool, audience FROM rejoinder.question
      WHERE state = 'pending' AND to_kind = 'user' AND ($1::text IS NULL OR audience = $1) ORDER BY timeout_at, id LIMIT $2)
    UNION ALL
    (SELECT tool, audience FROM rejoinder.question
      WHERE to_kind = 'user' AND state <> 'pending' AND ($1::text IS NULL OR audience = $1) ORDER BY closed_at DESC LIMIT $2)
)
SELECT array(SELECT DISTINCT tool FROM recent ORDER BY tool) AS tools,
       array(SELECT DISTINCT audience FROM recent WHERE audience IS NOT NULL ORDER BY audience) AS audiences;

-- name: now
SELECT rejoinder.clock() AS now;
