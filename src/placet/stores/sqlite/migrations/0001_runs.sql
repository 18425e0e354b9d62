-- The first schema: logs, the rows of runs, the questions that wait, grants, holds.
-- oldest code: 1

-- One row a run. The status `unbegun` is a mere lease: somebody is about to begin the run.
CREATE TABLE placet_runs (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of birth; lists and pages go by it
    id            TEXT NOT NULL UNIQUE,
    agent         TEXT NOT NULL DEFAULT '',           -- the address of the agent that it was started with
    status        TEXT NOT NULL DEFAULT 'unbegun',    -- unbegun, running, waiting, ended
    length        INTEGER NOT NULL DEFAULT 0,         -- how many lines its log has
    head          BLOB NOT NULL DEFAULT x'',          -- the chain of the log after the last line
    key           BLOB NOT NULL DEFAULT x'',          -- the key of the log's salts
    epoch         INTEGER NOT NULL DEFAULT 0,         -- of the last lease; the epochs of all runs come from one counter
    owner         TEXT,                               -- who has the lease; null: nobody
    lease_until   REAL NOT NULL DEFAULT 0,            -- an owner's right ends here; without an owner: not runnable before
    takeovers     INTEGER NOT NULL DEFAULT 0,
    parked        INTEGER NOT NULL DEFAULT 0,
    news_at       REAL,                               -- since when there is something that a driver should look at
    unseen        INTEGER NOT NULL DEFAULT 0,         -- lines came from outside that the driver has not seen yet
    has_work      INTEGER NOT NULL DEFAULT 0,         -- a driver could do something, if nobody held it back
    wake_at       REAL,                               -- when the first question ends by itself
    created_at    REAL NOT NULL DEFAULT 0,
    updated_at    REAL NOT NULL DEFAULT 0,
    ended_at      REAL,
    turn          INTEGER NOT NULL DEFAULT 0,
    session       TEXT,
    holds_session INTEGER NOT NULL DEFAULT 0,         -- it waits on its session
    final_output  TEXT,                               -- JSON
    stopped       TEXT,
    started_by    TEXT
);
CREATE INDEX placet_runs_by_status ON placet_runs (status, number);
CREATE INDEX placet_runs_by_agent ON placet_runs (agent, number);
CREATE INDEX placet_runs_by_agent_status ON placet_runs (agent, status, number);
CREATE INDEX placet_runs_with_news ON placet_runs (news_at) WHERE news_at IS NOT NULL;
CREATE INDEX placet_runs_to_wake ON placet_runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX placet_runs_with_work ON placet_runs (number) WHERE has_work AND news_at IS NULL;
CREATE INDEX placet_runs_on_sessions ON placet_runs (session, number) WHERE holds_session;
CREATE INDEX placet_runs_ended ON placet_runs (ended_at) WHERE ended_at IS NOT NULL;

-- The logs. `sequence` is the order in which the lines of all runs were written: it never repeats.
CREATE TABLE placet_lines (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    text     BLOB NOT NULL,
    checksum INTEGER NOT NULL,                        -- CRC-32 of the text: finds what a disk did
    UNIQUE (run, position)
);

-- The questions to people, in the order in which they were asked.
CREATE TABLE placet_requests (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT NOT NULL UNIQUE,
    run     INTEGER NOT NULL,
    call    TEXT NOT NULL,
    number  INTEGER NOT NULL,                         -- which question about the call
    status  TEXT NOT NULL,
    agent   TEXT NOT NULL,
    tool    TEXT NOT NULL,
    data    TEXT NOT NULL,                            -- JSON: the question as it was asked
    closing TEXT                                      -- JSON: who ended it, when, why
);
CREATE INDEX placet_requests_by_run ON placet_requests (run, call, number);
CREATE INDEX placet_requests_by_status ON placet_requests (status, ordinal);
CREATE INDEX placet_requests_by_agent ON placet_requests (agent, status, ordinal);
CREATE INDEX placet_requests_by_tool ON placet_requests (tool, status, ordinal);

-- The standing decisions that reach beyond their run. A revoked one stays, so that no old log brings it back.
CREATE TABLE placet_grants (
    id      TEXT PRIMARY KEY,
    agent   TEXT NOT NULL,
    data    TEXT NOT NULL,                            -- JSON
    revoked INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX placet_grants_by_agent ON placet_grants (agent) WHERE NOT revoked;

-- Which calls used a grant that is limited to a number of uses.
CREATE TABLE placet_grant_uses (
    grant_id TEXT NOT NULL,
    call     TEXT NOT NULL,
    PRIMARY KEY (grant_id, call)
) WITHOUT ROWID;

-- What operators hold back.
CREATE TABLE placet_holds (
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    placed_by TEXT,
    placed_at REAL NOT NULL,
    reason    TEXT,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- The counter that gives every lease its epoch.
CREATE TABLE placet_epochs (last INTEGER NOT NULL);
INSERT INTO placet_epochs (last) VALUES (0);
