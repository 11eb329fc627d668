-- Presets: tools made of other tools by fixing some of their arguments. A version is never changed; a preset points to
-- the one that counts.

-- last is the highest number that was ever given: a rollback moves current alone. A deleted preset stays, since runs
-- that began with it are carried on with it; its name is free.
CREATE TABLE rejoinder.preset (
    id          uuid PRIMARY KEY,
    name        text NOT NULL CHECK (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,127}$'),
    current     integer NOT NULL,
    last        integer NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text NOT NULL,
    deleted_at  timestamptz
);
CREATE UNIQUE INDEX preset_name ON rejoinder.preset (name) WHERE deleted_at IS NULL;

-- document is what was saved, references to the environment as they were written. json: an approval shows arguments
-- in their order.
CREATE TABLE rejoinder.preset_version (
    id          uuid PRIMARY KEY,
    preset_id   uuid NOT NULL REFERENCES rejoinder.preset (id),
    number      integer NOT NULL,
    document    json NOT NULL,
    pins        boolean NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    UNIQUE (preset_id, number)
);

-- A word for a version, such as "reviewed".
CREATE TABLE rejoinder.preset_tag (
    preset_id  uuid NOT NULL REFERENCES rejoinder.preset (id),
    tag        text NOT NULL,
    number     integer NOT NULL,
    set_at     timestamptz NOT NULL,
    set_by     text NOT NULL,
    PRIMARY KEY (preset_id, tag),
    FOREIGN KEY (preset_id, number) REFERENCES rejoinder.preset_version (preset_id, number)
);

-- The version that a run, or one step of an agent's run, began with: whoever carries it on uses that one.
ALTER TABLE rejoinder.run ADD COLUMN preset_version uuid;
ALTER TABLE rejoinder.step ADD COLUMN preset_version uuid;

-- status: created | exists (a live preset has the name)
CREATE FUNCTION rejoinder.create_preset_v1(
    p_id uuid, p_version uuid, p_name text, p_document json, p_pins boolean, p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := rejoinder.clock();
BEGIN
    INSERT INTO rejoinder.preset (id, name, current, last, created_at, created_by, updated_at, updated_by)
    VALUES (p_id, p_name, 1, 1, v_now, p_by, v_now, p_by)
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'exists';
    END IF;
    INSERT INTO rejoinder.preset_version (id, preset_id, number, document, pins, created_at, created_by)
    VALUES (p_version, p_id, 1, p_document, p_pins, v_now, p_by);
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('preset.created', p_by,
            jsonb_build_object('name', p_name, 'version', 1, 'base_tool', p_document ->> 'base_tool'));
    RETURN 'created';
END $$;

-- The row of a preset that is about to be changed, held to the end of the transaction. status: held | absent
-- | moved   it is no longer as the writer saw it (p_last, p_current)
-- | locked  what counts fixes arguments, and the writer is no admin (p_free: what it changes is free all the same)
CREATE FUNCTION rejoinder.hold_preset_v1(p_id uuid, p_last integer, p_current integer, p_free boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_preset rejoinder.preset;
BEGIN
    SELECT * INTO v_preset FROM rejoinder.preset p WHERE p.id = p_id AND p.deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF v_preset.last <> p_last OR v_preset.current <> p_current THEN
        RETURN 'moved';
    END IF;
    IF NOT p_free AND EXISTS (SELECT FROM rejoinder.preset_version v
                               WHERE v.preset_id = p_id AND v.number = v_preset.current AND v.pins) THEN
        RETURN 'locked';
    END IF;
    RETURN 'held';
END $$;

-- A new version, which counts from now on. status: saved, or as hold_preset_v1. Repeated with the same id it is one.
CREATE FUNCTION rejoinder.save_preset_v1(
    p_id uuid, p_version uuid, p_last integer, p_current integer, p_free boolean, p_document json, p_pins boolean,
    p_changed text[], p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := rejoinder.clock();
    v_status text;
BEGIN
    IF EXISTS (SELECT FROM rejoinder.preset_version v WHERE v.id = p_version) THEN
        RETURN 'saved';
    END IF;
    v_status := rejoinder.hold_preset_v1(p_id, p_last, p_current, p_free);
    IF v_status <> 'held' THEN
        RETURN v_status;
    END IF;
    INSERT INTO rejoinder.preset_version (id, preset_id, number, document, pins, created_at, created_by)
    VALUES (p_version, p_id, p_last + 1, p_document, p_pins, v_now, p_by);
    UPDATE rejoinder.preset p SET current = p_last + 1, last = p_last + 1, updated_at = v_now, updated_by = p_by
     WHERE p.id = p_id;
    INSERT INTO rejoinder.event (kind, actor, detail)
    SELECT 'preset.saved', p_by,
           jsonb_build_object('name', p.name, 'version', p_last + 1, 'from_version', p_current, 'changed', p_changed)
      FROM rejoinder.preset p WHERE p.id = p_id;
    RETURN 'saved';
END $$;

-- status: moved_back, or as hold_preset_v1.
CREATE FUNCTION rejoinder.roll_preset_back_v1(
    p_id uuid, p_last integer, p_current integer, p_free boolean, p_number integer, p_changed text[], p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_status text := rejoinder.hold_preset_v1(p_id, p_last, p_current, p_free);
BEGIN
    IF v_status <> 'held' THEN
        RETURN v_status;
    END IF;
    UPDATE rejoinder.preset p SET current = p_number, updated_at = rejoinder.clock(), updated_by = p_by
     WHERE p.id = p_id;
    INSERT INTO rejoinder.event (kind, actor, detail)
    SELECT 'preset.rolled_back', p_by,
           jsonb_build_object('name', p.name, 'version', p_number, 'from_version', p_current, 'changed', p_changed)
      FROM rejoinder.preset p WHERE p.id = p_id;
    RETURN 'moved_back';
END $$;

-- status: renamed | exists, or as hold_preset_v1.
CREATE FUNCTION rejoinder.rename_preset_v1(
    p_id uuid, p_last integer, p_current integer, p_free boolean, p_name text, p_by text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_status text := rejoinder.hold_preset_v1(p_id, p_last, p_current, p_free);
    v_before text;
BEGIN
    IF v_status <> 'held' THEN
        RETURN v_status;
    END IF;
    SELECT p.name INTO v_before FROM rejoinder.preset p WHERE p.id = p_id;
    UPDATE rejoinder.preset p SET name = p_name, updated_at = rejoinder.clock(), updated_by = p_by WHERE p.id = p_id;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES ('preset.renamed', p_by, jsonb_build_object('name', p_name, 'from', v_before));
    RETURN 'renamed';
EXCEPTION WHEN unique_violation THEN
    RETURN 'exists';
END $$;

-- status: deleted, or as hold_preset_v1.
CREATE FUNCTION rejoinder.delete_preset_v1(p_id uuid, p_last integer, p_current integer, p_free boolean, p_by text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_status text := rejoinder.hold_preset_v1(p_id, p_last, p_current, p_free);
BEGIN
    IF v_status <> 'held' THEN
        RETURN v_status;
    END IF;
    UPDATE rejoinder.preset p SET deleted_at = rejoinder.clock(), updated_at = rejoinder.clock(), updated_by = p_by
     WHERE p.id = p_id;
    INSERT INTO rejoinder.event (kind, actor, detail)
    SELECT 'preset.deleted', p_by, jsonb_build_object('name', p.name, 'version', p_current)
      FROM rejoinder.preset p WHERE p.id = p_id;
    RETURN 'deleted';
END $$;

-- p_number NULL takes the tag off. False: there is no such preset or version, or no such tag to take off.
CREATE FUNCTION rejoinder.tag_preset_v1(p_id uuid, p_tag text, p_number integer, p_by text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    SELECT p.name INTO v_name FROM rejoinder.preset p WHERE p.id = p_id AND p.deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_number IS NULL THEN
        DELETE FROM rejoinder.preset_tag t WHERE t.preset_id = p_id AND t.tag = p_tag;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    ELSE
        INSERT INTO rejoinder.preset_tag AS t (preset_id, tag, number, set_at, set_by)
        SELECT p_id, p_tag, v.number, rejoinder.clock(), p_by
          FROM rejoinder.preset_version v WHERE v.preset_id = p_id AND v.number = p_number
        ON CONFLICT (preset_id, tag) DO UPDATE SET number = EXCLUDED.number, set_at = EXCLUDED.set_at,
                                                   set_by = EXCLUDED.set_by;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO rejoinder.event (kind, actor, detail)
    VALUES (CASE WHEN p_number IS NULL THEN 'preset.untagged' ELSE 'preset.tagged' END, p_by,
            jsonb_build_object('name', v_name, 'tag', p_tag, 'version', p_number));
    RETURN true;
END $$;
