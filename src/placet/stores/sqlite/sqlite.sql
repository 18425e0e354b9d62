-- The statements that only SQLite has: what PostgreSQL does in functions (see its migrations) or in its own way.

-- name: create_schema_table
-- Which migrations were applied; each says the oldest code that can work with it.
CREATE TABLE IF NOT EXISTS placet_schema (
    number      INTEGER PRIMARY KEY,
    oldest_code INTEGER NOT NULL,
    name        TEXT NOT NULL,
    applied_at  REAL NOT NULL
);

-- name: record_migration
-- A migration was applied.
INSERT INTO placet_schema (number, oldest_code, name, applied_at) VALUES (:number, :oldest_code, :name, placet_now());

-- name: has_schema
-- Whether there is anything of ours in this file.
SELECT 1 FROM sqlite_master WHERE name = 'placet_schema';

-- name: place
-- Where a run stands, for the next write to it.
SELECT number, length, epoch, owner, owner IS NOT NULL AND lease_until > placet_now(), unseen, has_work, status,
       head
FROM placet_runs WHERE id = :id;

-- name: begin_run
-- The row of a run that is new to the store.
INSERT INTO placet_runs (id) VALUES (:id) RETURNING number;

-- name: insert_line
-- One line of a log.
INSERT INTO placet_lines (run, position, text, checksum) VALUES (:run, :position, :text, :checksum);

-- name: first_append
-- What is said of a run once, when its log begins.
UPDATE placet_runs SET key = :key, created_at = :updated_at, started_by = :started_by WHERE number = :run;

-- name: advance
-- A run's row after an append. From outside it is news; the driver's own append shows that it has seen all before it.
UPDATE placet_runs
SET length = :length, head = :head, agent = :agent, status = :status, updated_at = :updated_at, ended_at = :ended_at,
    turn = :turn, session = :session, holds_session = :holds_session, final_output = :final_output, stopped = :stopped,
    has_work = :has_work, wake_at = :wake_at, unseen = :is_outside,
    lease_until = CASE WHEN :is_outside AND owner IS NULL THEN 0 ELSE lease_until END,
    news_at = CASE
        WHEN :status = 'ended' THEN NULL
        WHEN :is_outside THEN coalesce(news_at, :updated_at)
        ELSE news_at
    END
WHERE number = :run;

-- name: close_request
-- The open request about a call has ended.
UPDATE placet_requests SET status = :status, closing = :closing WHERE run = :run AND call = :call AND status = 'pending';

-- name: open_request
-- A person is asked; asked again under the same id, the request keeps its place.
INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
VALUES (:id, :run, :call, :number, 'pending', :agent, :tool, :data)
ON CONFLICT (id) DO UPDATE SET status = 'pending', data = excluded.data, closing = NULL, escalated_at = NULL, ballot = NULL;

-- name: escalate_request
-- The open request about a call goes to others, and waits on without a deadline.
UPDATE placet_requests SET escalated_at = :at WHERE run = :run AND call = :call AND status = 'pending';

-- name: count_votes
-- What the newest request about a call needs, and the votes; earlier requests show none any more.
UPDATE placet_requests SET ballot = CASE WHEN number = :number THEN :ballot END WHERE run = :run AND call = :call;

-- name: reopen_request
-- The last request about a call is open again.
UPDATE placet_requests SET status = 'pending', closing = NULL
WHERE ordinal = (SELECT ordinal FROM placet_requests WHERE run = :run AND call = :call ORDER BY number DESC LIMIT 1);

-- name: next_epoch
-- A number that no lease has had.
UPDATE placet_epochs SET last = last + 1 RETURNING last;

-- name: take_lease
-- The right to drive a run goes to a new owner; one that was not given back was taken over.
UPDATE placet_runs
SET epoch = :epoch, owner = :owner, lease_until = placet_now() + :ttl,
    takeovers = takeovers + (owner IS NOT NULL AND length > 0),
    news_at = CASE WHEN status = 'ended' THEN NULL ELSE coalesce(news_at, placet_now()) END
WHERE number = :run;

-- name: end_lease
-- The right is given back. With a pause: there is work left, to be found after it.
UPDATE placet_runs
SET owner = NULL, unseen = false, lease_until = CASE WHEN :pause IS NULL THEN 0 ELSE placet_now() + :pause END,
    news_at = CASE WHEN :pause IS NOT NULL THEN placet_now() END
WHERE number = :run;

-- name: renew_lease
-- Move the end of a lease, if it is still the run's.
UPDATE placet_runs SET lease_until = placet_now() + :ttl
WHERE id = :id AND epoch = :epoch AND owner IS NOT NULL RETURNING 1;

-- name: expire_lease
-- The driver died without giving its right back: others need not wait.
UPDATE placet_runs SET lease_until = 0 WHERE id = :id AND epoch = :epoch AND owner IS NOT NULL;

-- name: grant_is_revoked
-- Whether a grant was taken back.
SELECT 1 FROM placet_grants WHERE id = :id AND revoked;

-- name: grant_uses
-- How many calls used a grant, and whether this one is among them.
SELECT count(*), coalesce(sum(call = :call), 0) FROM placet_grant_uses WHERE grant_id = :id;

-- name: count_use
-- A call uses a grant.
INSERT INTO placet_grant_uses (grant_id, call) VALUES (:id, :call);

-- name: overwrite_erased
-- From now on this connection overwrites what it deletes with zeros.
PRAGMA secure_delete = ON;
