-- What a desk keeps beside the runs: users, tokens, sessions, invitations, answers to be repeated.
-- oldest code: 1

CREATE TABLE placet_records (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,                         -- unique within its kind
    owner      TEXT NOT NULL DEFAULT '',              -- whose it is
    data       TEXT NOT NULL,                         -- JSON; secrets only as digests
    expires_at REAL,                                  -- from then on as if it were not there
    PRIMARY KEY (kind, id)
);
CREATE INDEX placet_records_by_owner ON placet_records (kind, owner, id);
CREATE INDEX placet_records_to_expire ON placet_records (expires_at) WHERE expires_at IS NOT NULL;
