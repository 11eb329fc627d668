-- name: add
INSERT INTO rejoinder.event (kind, interaction_id, group_id, run_id, audience, actor, via, reason, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: since
-- Events that every reader is sure to see in this order: below the oldest transaction that still runs. The order is
-- spelled with the table's name: the plain one is the column of the result, which no index knows.
-- What is not for people is called otherwise here, so that the stream does not show it.
SELECT seq, xid::text::bigint AS xid, at,
       CASE WHEN EXISTS (SELECT FROM rejoinder.question q WHERE q.id = event.interaction_id AND q.to_kind <> 'user')
            THEN 'not for people' ELSE kind END AS kind,
       interaction_id, group_id, run_id, audience, actor, via, reason, detail
  FROM rejoinder.event
 WHERE (xid, seq) > ($1::text::xid8, $2) AND xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY event.xid, event.seq LIMIT $3;

-- name: unseen
-- How old the oldest event is that a still running transaction holds back, in seconds; no row where none is.
SELECT EXTRACT(EPOCH FROM clock_timestamp() - at)::float8 AS age FROM rejoinder.event
 WHERE (xid, seq) > ($1::text::xid8, $2) ORDER BY xid, seq LIMIT 1;

-- name: tip
-- Where a reader that wants only what comes next begins.
SELECT COALESCE((SELECT max(xid) FROM rejoinder.event WHERE xid < pg_snapshot_xmin(pg_current_snapshot())), '0'::xid8)::text::bigint AS xid;

-- name: tip_seq
SELECT COALESCE(max(seq), 0) AS seq FROM rejoinder.event WHERE xid = $1::text::xid8;

-- name: place
-- Where the event with this number stands.
SELECT seq, xid::text::bigint AS xid FROM rejoinder.event WHERE seq = $1;

-- name: page
-- The audit trail, newest first. NULL leaves a filter out.
SELECT seq, xid::text::bigint AS xid, at, kind, interaction_id, group_id, run_id, audience, actor, via, reason, detail
  FROM rejoinder.event
 WHERE ($1::bigint IS NULL OR seq < $1) AND ($2::uuid IS NULL OR interaction_id = $2) AND ($3::uuid IS NULL OR run_id = $3)
   AND ($4::text IS NULL OR kind = $4 OR kind LIKE $4 || '.%') AND ($5::text IS NULL OR actor = $5)
   AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
   AND ($8::text IS NULL OR audience = $8)
 ORDER BY seq DESC LIMIT $9;

-- name: prune
-- The moment is a query of its own in every statement of this kind: an index is read up to a value, and to its end where
-- each row is compared with the clock.
DELETE FROM rejoinder.event WHERE seq IN (
    SELECT seq FROM rejoinder.event WHERE at < (SELECT clock_timestamp() - $1::interval) ORDER BY at LIMIT 5000);

-- name: prune_questions
DELETE FROM rejoinder.question WHERE id IN (
    SELECT id FROM rejoinder.question WHERE state <> 'pending' AND closed_at < (SELECT rejoinder.clock() - $1::interval)
     ORDER BY closed_at LIMIT 5000);

-- name: prune_queue_log
DELETE FROM rejoinder.pgqueuer_log WHERE id IN (
    SELECT id FROM rejoinder.pgqueuer_log WHERE created < (SELECT clock_timestamp() - $1::interval) ORDER BY created LIMIT 5000);
