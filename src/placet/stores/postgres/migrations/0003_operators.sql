-- The operators' log: holds, lifted holds, standing grants, revocations, as a chain of its own.
-- oldest code: 1

-- Where it stands: one row, which whoever writes to the log locks first.
CREATE TABLE placet_operators (
    length integer NOT NULL,
    head   bytea NOT NULL,
    key    bytea NOT NULL
);
INSERT INTO placet_operators (length, head, key) VALUES (0, '', '');

CREATE TABLE placet_operator_lines (
    position integer PRIMARY KEY,
    text     bytea NOT NULL,
    checksum bigint NOT NULL
);
