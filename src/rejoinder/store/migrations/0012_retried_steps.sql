-- A step that a worker died in, whose code may not run twice, is entered again only after an operator has sent its run on.

-- retried: an operator has, since the step was found interrupted.
ALTER TABLE rejoinder.step ADD COLUMN retried boolean NOT NULL DEFAULT false;

-- Whichever version of whatever function it is that sends the run on.
CREATE FUNCTION rejoinder.run_retried_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rejoinder.step s SET retried = true WHERE s.run_id = NEW.id AND s.state = 'interrupted';
    RETURN NULL;
END $$;
CREATE TRIGGER run_retried AFTER UPDATE ON rejoinder.run FOR EACH ROW
    WHEN (OLD.held AND NOT NEW.held AND NEW.state IN ('running', 'parked'))
    EXECUTE FUNCTION rejoinder.run_retried_v1();

-- As v1. A worker may find a step interrupted and die before it has ended the run for that: the next one must find the
-- same, where v1 let it in.
CREATE FUNCTION rejoinder.enter_step_v2(
    p_id uuid, p_run_id uuid, p_epoch bigint, p_name text, p_repeatable boolean, p_go_on boolean
) RETURNS TABLE (status text, starts integer, round integer, question_ids uuid[], outcome jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s rejoinder.step;
BEGIN
    PERFORM 1 FROM rejoinder.run r WHERE r.id = p_run_id AND r.epoch = p_epoch AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'fenced', 0, 0, '{}'::uuid[], NULL::jsonb;
        RETURN;
    END IF;
    INSERT INTO rejoinder.step (id, run_id, name, state, epoch) VALUES (p_id, p_run_id, p_name, 'entered', p_epoch)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT 'entered', 1, 0, '{}'::uuid[], NULL::jsonb;
        RETURN;
    END IF;
    SELECT * INTO s FROM rejoinder.step x WHERE x.id = p_id FOR NO KEY UPDATE;
    IF s.state = 'done' OR (s.state = 'asked' AND NOT p_go_on) THEN
        RETURN QUERY SELECT s.state, s.starts, s.round, s.question_ids, s.outcome;
        RETURN;
    END IF;
    -- In the same epoch it is this very call once more, after its reply was lost.
    IF NOT p_repeatable
       AND ((s.state = 'entered' AND s.epoch < p_epoch) OR (s.state = 'interrupted' AND NOT s.retried)) THEN
        UPDATE rejoinder.step x SET state = 'interrupted', retried = false WHERE x.id = p_id;
        RETURN QUERY SELECT 'interrupted', s.starts, s.round, s.question_ids, NULL::jsonb;
        RETURN;
    END IF;
    UPDATE rejoinder.step x
       SET state = 'entered', epoch = p_epoch, retried = false,
           starts = CASE WHEN s.state = 'asked' THEN 1 WHEN s.epoch < p_epoch THEN s.starts + 1 ELSE s.starts END
     WHERE x.id = p_id
    RETURNING x.starts INTO s.starts;
    RETURN QUERY SELECT 'entered', s.starts, s.round, s.question_ids, NULL::jsonb;
END $$;
