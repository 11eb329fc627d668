-- name: begin
SELECT rejoinder.begin_leg_v1($1, $2);

-- name: tell
SELECT rejoinder.tell_leg_v1($1, $2);

-- name: give_up
SELECT rejoinder.give_up_leg_v1($1);

-- name: prune
DELETE FROM rejoinder.leg WHERE request IN (
    SELECT request FROM rejoinder.leg WHERE created_at < (SELECT rejoinder.clock() - $1::interval)
     ORDER BY created_at LIMIT 5000);
