-- The operators' log: holds, lifted holds, standing grants, revocations, as a chain of its own.
-- oldest code: 1

-- Where it stands: one row.
CREATE TABLE placet_operators (
    length INTEGER NOT NULL,
    head   BLOB NOT NULL,
    key    BLOB NOT NULL                              -- the key of the log's salts
);
INSERT INTO placet_operators (length, head, key) VALUES (0, x'', x'');

CREATE TABLE placet_operator_lines (
    position INTEGER PRIMARY KEY,
    text     BLOB NOT NULL,
    checksum INTEGER NOT NULL                         -- CRC-32 of the text
);
