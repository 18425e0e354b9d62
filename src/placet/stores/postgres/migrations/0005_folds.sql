-- Cached folds: what a log amounts to after so many lines. They can be made anew from the logs at any time.
-- oldest code: 1

CREATE TABLE placet_folds (
    run      bigint PRIMARY KEY REFERENCES placet_runs (number) ON DELETE CASCADE,  -- goes with its run, whoever deletes it
    position integer NOT NULL,
    size     bigint NOT NULL,
    version  text NOT NULL,
    checksum bigint NOT NULL,
    data     bytea NOT NULL
);
