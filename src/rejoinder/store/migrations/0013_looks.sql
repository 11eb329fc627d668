-- Looks that read no more than they need, and burials by processes of a version before.

-- Schedules with an expression are looked for apart from those without: neither look reads past the others.
CREATE INDEX schedule_due_plain ON rejoinder.schedule (next_run_at, id)
    WHERE next_run_at IS NOT NULL AND start_expr IS NULL;
CREATE INDEX schedule_due_evaluated ON rejoinder.schedule (next_run_at, id)
    WHERE next_run_at IS NOT NULL AND start_expr IS NOT NULL;
DROP INDEX rejoinder.schedule_due;

-- A process of a version before, which knows nothing of runs of hooks and schedules, may find a new one dead: what the
-- queue hands on must not be lost by that.
CREATE OR REPLACE FUNCTION rejoinder.end_process_v2(p_id uuid, p_reason text) RETURNS uuid[] LANGUAGE sql AS $$
    SELECT rejoinder.end_process_v3(p_id, p_reason)
$$;
CREATE OR REPLACE FUNCTION rejoinder.end_process_v1(p_id uuid, p_reason text) RETURNS uuid[] LANGUAGE sql AS $$
    SELECT rejoinder.end_process_v3(p_id, p_reason)
$$;
