-- Questions that an outside system answers: the tickets of their callback URLs, the keys that seal such tickets, and
-- the deliveries that have counted already.

-- A key that all processes of this deployment share, by what it is for. The highest number seals, every one opens.
CREATE TABLE rejoinder.sealing_key (
    purpose     text NOT NULL,
    number      integer NOT NULL,
    secret      bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (purpose, number)
);

-- A ticket is the right to answer one question. Only its SHA-256 is kept, and how long it counts is read from its
-- question. There may be several: whoever is sent to an outside page is given a fresh one.
CREATE TABLE rejoinder.ticket (
    digest       bytea PRIMARY KEY,
    question_id  uuid NOT NULL REFERENCES rejoinder.question (id) ON DELETE CASCADE,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ticket_question ON rejoinder.ticket (question_id);

-- A signed delivery that has counted: a copy of it counts for nothing until the moment at which it is stale anyway.
CREATE TABLE rejoinder.seen_delivery (
    digest       bytea PRIMARY KEY,
    question_id  uuid,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX seen_delivery_expires ON rejoinder.seen_delivery (expires_at);

-- What a channel told beside the answer: {"reply_to": {...} | null, "params": {...} | null}.
ALTER TABLE rejoinder.question ADD COLUMN reply jsonb;

-- An answer that came with a ticket. The delivery that carried it, where it has a name, counts once.
-- status: answered | seen (this delivery counted before) | closed (somebody else or the clock was there)
-- The delivery's row is taken before all others, and by nothing else.
CREATE FUNCTION rejoinder.answer_by_ticket_v1(
    p_id uuid, p_by text, p_via text, p_answer jsonb, p_sealed bytea, p_digest bytea, p_reply jsonb,
    p_delivery bytea, p_window interval
) RETURNS TABLE (status text, run_id uuid, park_id uuid, resumes boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c record;
BEGIN
    IF p_delivery IS NOT NULL THEN
        INSERT INTO rejoinder.seen_delivery AS d (digest, question_id, expires_at)
        VALUES (p_delivery, p_id, rejoinder.clock() + p_window)
        ON CONFLICT (digest) DO UPDATE SET question_id = EXCLUDED.question_id, expires_at = EXCLUDED.expires_at
         WHERE d.expires_at <= rejoinder.clock();
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'seen', NULL::uuid, NULL::uuid, false;
            RETURN;
        END IF;
    END IF;
    SELECT x.run_id, x.park_id, x.resumes INTO c
      FROM rejoinder.close_questions_v1(ARRAY[p_id], 'answered', p_by, p_via, NULL, p_answer, p_sealed, p_digest) x
     WHERE x.id = p_id;
    IF NOT FOUND THEN
        -- It did nothing, so it has not counted.
        DELETE FROM rejoinder.seen_delivery d WHERE d.digest = p_delivery;
        RETURN QUERY SELECT 'closed', NULL::uuid, NULL::uuid, false;
        RETURN;
    END IF;
    IF p_reply IS NOT NULL THEN
        UPDATE rejoinder.question q SET reply = p_reply WHERE q.id = p_id;
    END IF;
    RETURN QUERY SELECT 'answered', c.run_id, c.park_id, c.resumes;
END $$;
