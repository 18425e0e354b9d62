-- Standing grants with terms that older code does not know, and what was taken of budgets.
-- oldest code: 7

-- Beside the plain ones: older code, which would pass over their terms, does not see them, and asks a person.
CREATE TABLE placet_bounded_grants (
    id      TEXT PRIMARY KEY,
    agent   TEXT NOT NULL,
    data    TEXT NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX placet_bounded_grants_by_agent ON placet_bounded_grants (agent) WHERE NOT revoked;

-- What is taken of each limit in each period, in millionths. A claim that takes locks its row.
CREATE TABLE placet_budgets (
    budget      TEXT NOT NULL,
    part        TEXT NOT NULL,
    share_group TEXT NOT NULL,
    period      TEXT NOT NULL,
    spent       INTEGER NOT NULL,
    useless_at  REAL,
    PRIMARY KEY (budget, part, share_group, period)
) WITHOUT ROWID;
CREATE INDEX placet_budgets_over ON placet_budgets (useless_at) WHERE useless_at IS NOT NULL;

-- Which call took how much: each once.
CREATE TABLE placet_budget_takes (
    budget      TEXT NOT NULL,
    part        TEXT NOT NULL,
    call        TEXT NOT NULL,
    share_group TEXT NOT NULL,
    period      TEXT NOT NULL,
    amount      INTEGER NOT NULL,
    taken_at    REAL NOT NULL,
    useless_at  REAL,
    PRIMARY KEY (budget, part, call)
) WITHOUT ROWID;
CREATE INDEX placet_budget_takes_by_time ON placet_budget_takes (budget, part, share_group, taken_at);
CREATE INDEX placet_budget_takes_by_call ON placet_budget_takes (call);
CREATE INDEX placet_budget_takes_over ON placet_budget_takes (useless_at) WHERE useless_at IS NOT NULL;
