-- name: binding
SELECT verifier, config FROM rejoinder.topic_binding WHERE topic = $1;

-- name: accept
SELECT status, hooks FROM rejoinder.accept_delivery_v1($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: of_run
-- The delivery that a run stands on. Only the run that a hook started stands on one, and none that it calls.
SELECT d.id, d.topic, d.verifier, d.trigger, d.payload
  FROM rejoinder.hook_run r JOIN rejoinder.delivery d ON d.id = r.delivery_id
 WHERE r.run_id = $1;

-- name: vouches
SELECT EXISTS (SELECT FROM rejoinder.hook_run r JOIN rejoinder.delivery d ON d.id = r.delivery_id
                WHERE r.run_id = $1 AND r.by_admin AND d.verifier IS NOT NULL);

-- name: prune
-- What every hook is done with. One that is outstanding or held keeps its delivery.
DELETE FROM rejoinder.delivery WHERE id IN (
    SELECT d.id FROM rejoinder.delivery d
     WHERE d.received_at < (SELECT rejoinder.clock() - least($1::interval, $2::interval))
       AND d.received_at < rejoinder.clock() - CASE WHEN d.verifier IS NULL THEN $2::interval ELSE $1::interval END
       AND NOT EXISTS (SELECT FROM rejoinder.hook_run r
                        WHERE r.delivery_id = d.id AND r.status IN ('outstanding', 'failed'))
     ORDER BY d.received_at LIMIT 1000);
