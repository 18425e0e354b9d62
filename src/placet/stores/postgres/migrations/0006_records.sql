-- What a desk keeps beside the runs: users, tokens, sessions, invitations, answers to be repeated.
-- oldest code: 1

CREATE TABLE placet_records (
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,             -- unique within its kind
    owner      text COLLATE "C" NOT NULL DEFAULT '',  -- whose it is
    data       text NOT NULL,                         -- JSON; secrets only as digests
    expires_at double precision,                      -- from then on as if it were not there
    PRIMARY KEY (kind, id)
);
CREATE INDEX placet_records_by_owner ON placet_records (kind, owner, id);
CREATE INDEX placet_records_to_expire ON placet_records (expires_at) WHERE expires_at IS NOT NULL;
