-- What calls take of budgets.

-- name: take_share
-- A call takes its share, once.
INSERT INTO placet_budget_takes (budget, part, call, share_group, period, amount, taken_at, useless_at)
VALUES (:budget, :part, :call, :share_group, :period, :amount, :at, :useless_at)
ON CONFLICT (budget, part, call) DO NOTHING
RETURNING 1;

-- name: add_to_spent
-- The sum with one share more; no row: that would be more than there may be. Its row is locked until the claim is
-- written, so that of two claims that fit alone, and not together, one is refused.
INSERT INTO placet_budgets AS found (budget, part, share_group, period, spent, useless_at)
VALUES (:budget, :part, :share_group, :period, :amount, :useless_at)
ON CONFLICT (budget, part, share_group, period) DO UPDATE SET
    spent = found.spent + excluded.spent, useless_at = excluded.useless_at
WHERE found.spent + excluded.spent <= :most
RETURNING spent;

-- name: spent
-- The sum of a period.
SELECT spent FROM placet_budgets
WHERE budget = :budget AND part = :part AND share_group = :share_group AND period = :period;

-- name: spent_since
-- The sum of what was taken after a moment.
SELECT coalesce(sum(amount), 0) FROM placet_budget_takes
WHERE budget = :budget AND part = :part AND share_group = :share_group AND taken_at > :since;

-- name: has_taken
-- Whether a call took its share before.
SELECT 1 FROM placet_budget_takes WHERE budget = :budget AND part = :part AND call = :call;

-- name: shares_of
-- What is taken of a budget and may still count, the largest first.
SELECT part, share_group, period, sum(amount) AS taken, count(*) FROM placet_budget_takes
WHERE budget = :budget AND (useless_at IS NULL OR useless_at > :at)
GROUP BY part, share_group, period
ORDER BY taken DESC, share_group
LIMIT :limit;

-- name: shares_of_call
-- What a call took.
SELECT budget, part, share_group, period, amount FROM placet_budget_takes
WHERE call = :call
ORDER BY budget, part;

-- name: give_back_share
-- A call took nothing of this, after all.
DELETE FROM placet_budget_takes WHERE budget = :budget AND part = :part AND call = :call RETURNING 1;

-- name: subtract_from_spent
-- The sum without it.
UPDATE placet_budgets SET spent = spent - :amount
WHERE budget = :budget AND part = :part AND share_group = :share_group AND period = :period
RETURNING 1;

-- name: forget_takes
-- Some of what has been of no use for a while.
DELETE FROM placet_budget_takes WHERE (budget, part, call) IN (
    SELECT budget, part, call FROM placet_budget_takes WHERE useless_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING 1;

-- name: forget_budgets
-- Sums of periods that have been over for a while.
DELETE FROM placet_budgets WHERE (budget, part, share_group, period) IN (
    SELECT budget, part, share_group, period FROM placet_budgets WHERE useless_at < :before LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
RETURNING 1;
