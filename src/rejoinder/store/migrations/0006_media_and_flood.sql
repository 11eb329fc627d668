-- Images that came with a question as data: URLs, served by an id that nobody can guess. There are no foreign keys: a
-- question is deleted in bulk, and housekeeping takes its images after it.
CREATE TABLE rejoinder.media (
    id            text PRIMARY KEY,
    question_id   uuid NOT NULL,
    content_type  text NOT NULL,
    content       bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Pictures are compressed already: trying again costs time on every write.
ALTER TABLE rejoinder.media ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX media_question ON rejoinder.media (question_id);

-- How often a client called a public door in a window. hits only grows; the key names the window.
CREATE UNLOGGED TABLE rejoinder.flood (
    bucket   bytea PRIMARY KEY,
    hits     integer NOT NULL,
    ends_at  timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX flood_ends ON rejoinder.flood (ends_at);
