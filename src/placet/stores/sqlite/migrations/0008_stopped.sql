-- Runs that an error stopped are listed by themselves.
-- oldest code: 7

CREATE INDEX placet_runs_stopped ON placet_runs (number) WHERE stopped IS NOT NULL AND status <> 'ended';
