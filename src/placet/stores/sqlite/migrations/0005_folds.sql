-- Cached folds: what a log amounts to after so many lines. They can be made anew from the logs at any time.
-- oldest code: 1

CREATE TABLE placet_folds (
    run      INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,                        -- of the log's first so many lines
    size     INTEGER NOT NULL,                        -- which have so many bytes
    version  TEXT NOT NULL,                           -- of the code that folded
    checksum INTEGER NOT NULL,                        -- CRC-32 of the data
    data     BLOB NOT NULL
);
