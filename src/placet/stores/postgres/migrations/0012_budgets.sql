-- Standing grants with terms that older code does not know, and what was taken of budgets.
-- oldest code: 7

-- Beside the plain ones: older code, which would pass over their terms, does not see them, and asks a person.
CREATE TABLE placet_bounded_grants (
    id      text PRIMARY KEY,
    agent   text NOT NULL,
    data    text NOT NULL,
    revoked boolean NOT NULL DEFAULT false
);
CREATE INDEX placet_bounded_grants_by_agent ON placet_bounded_grants (agent) WHERE NOT revoked;

-- What is taken of each limit in each period, in millionths. A claim that takes locks its row.
CREATE TABLE placet_budgets (
    budget      text NOT NULL,
    part        text NOT NULL,
    share_group text NOT NULL,
    period      text NOT NULL,
    spent       bigint NOT NULL,
    useless_at  double precision,
    PRIMARY KEY (budget, part, share_group, period)
);
CREATE INDEX placet_budgets_over ON placet_budgets (useless_at) WHERE useless_at IS NOT NULL;

-- Which call took how much: each once.
CREATE TABLE placet_budget_takes (
    budget      text NOT NULL,
    part        text NOT NULL,
    call        text NOT NULL,
    share_group text NOT NULL,
    period      text NOT NULL,
    amount      bigint NOT NULL,
    taken_at    double precision NOT NULL,
    useless_at  double precision,
    PRIMARY KEY (budget, part, call)
);
CREATE INDEX placet_budget_takes_by_time ON placet_budget_takes (budget, part, share_group, taken_at);
CREATE INDEX placet_budget_takes_by_call ON placet_budget_takes (call);
CREATE INDEX placet_budget_takes_over ON placet_budget_takes (useless_at) WHERE useless_at IS NOT NULL;
