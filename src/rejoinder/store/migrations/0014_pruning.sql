-- What is looked at every minute for what is over is read along an index, up to the moment that counts.

CREATE INDEX run_results ON rejoinder.run (finished_at) WHERE result IS NOT NULL AND NOT held;

CREATE INDEX schedule_over ON rejoinder.schedule (last_slot_at)
    WHERE cadence IS NULL AND next_run_at IS NULL AND enabled;

-- In the order of time, which the one before cannot give: without it the whole table was read where nothing is old.
CREATE INDEX schedule_slot_old ON rejoinder.schedule_slot (taken_at);
DROP INDEX rejoinder.schedule_slot_taken;
