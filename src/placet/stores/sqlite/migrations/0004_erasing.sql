-- Runs whose data was erased.
-- oldest code: 1

ALTER TABLE placet_runs ADD COLUMN erased_at REAL;
