-- The statements of the SQLite store. Each has a name and a sentence; migrations/ says what the columns mean.

-- name: applied
-- How far the schema is, and which code it needs at least.
SELECT coalesce(max(number), 0), coalesce(max(oldest_code), 0) FROM placet_schema;

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
INSERT INTO placet_schema (number, oldest_code, name, applied_at) VALUES (?, ?, ?, ?);

-- name: load
-- A run's log in order, with the row's word on how long it is.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position
FROM placet_runs r LEFT JOIN placet_lines l ON l.run = r.number
WHERE r.id = ? AND r.length > 0
ORDER BY l.position;

-- name: cached_at
-- After how many lines the fold of a run was last cached by code of a version.
SELECT f.position FROM placet_folds f JOIN placet_runs r ON r.number = f.run WHERE r.id = ? AND f.version = ?;

-- name: cached_fold
-- The cached fold of a run by code of a version.
SELECT f.position, f.size, f.version, f.checksum, f.data
FROM placet_folds f JOIN placet_runs r ON r.number = f.run
WHERE r.id = ? AND f.version = ?;

-- name: load_from
-- A run's log from a line on.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position
FROM placet_runs r LEFT JOIN placet_lines l ON l.run = r.number AND l.position >= ?
WHERE r.id = ? AND r.length > 0
ORDER BY l.position;

-- name: cache_fold
-- A fold takes the place of an earlier one.
INSERT INTO placet_folds (run, position, size, version, checksum, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run) DO UPDATE SET position = excluded.position, size = excluded.size, version = excluded.version,
    checksum = excluded.checksum, data = excluded.data;

-- name: drop_fold
-- A run's cached fold.
DELETE FROM placet_folds WHERE run = ?;

-- name: place
-- Where a run stands, for whoever wants to write to it.
SELECT number, length, epoch, owner, lease_until, unseen, has_work, status FROM placet_runs WHERE id = ?;

-- name: begin_run
-- The row of a run that is new to the store.
INSERT INTO placet_runs (id) VALUES (?) RETURNING number;

-- name: insert_line
-- One line of a log.
INSERT INTO placet_lines (run, position, text, checksum) VALUES (?, ?, ?, ?);

-- name: first_append
-- What is said of a run once, when its log begins.
UPDATE placet_runs SET key = ?, created_at = ?, started_by = ? WHERE number = ?;

-- name: advance
-- A run's row after an append. From outside it is news; the driver's own append shows that it has seen all before it.
UPDATE placet_runs
SET length = :length, head = :head, agent = :agent, status = :status, updated_at = :at, ended_at = :ended_at,
    turn = :turn, session = :session, holds_session = :holds_session, final_output = :final_output, stopped = :stopped,
    has_work = :has_work, wake_at = :wake_at, unseen = :is_outside,
    lease_until = CASE WHEN :is_outside AND owner IS NULL THEN 0 ELSE lease_until END,
    news_at = CASE WHEN :status = 'ended' THEN NULL WHEN :is_outside THEN coalesce(news_at, :at) ELSE news_at END
WHERE number = :number;

-- name: close_request
-- The open question about a call has ended.
UPDATE placet_requests SET status = ?, closing = ? WHERE run = ? AND call = ? AND status = 'pending';

-- name: open_request
-- A question was asked; asked again under the same id, it keeps its place.
INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
VALUES (?, ?, ?, ?, 'pending', ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET status = 'pending', data = excluded.data, closing = NULL, escalated_at = NULL;

-- name: escalate_request
-- The open question about a call goes to others, and waits on without a deadline.
UPDATE placet_requests SET escalated_at = ? WHERE run = ? AND call = ? AND status = 'pending';

-- name: reopen_request
-- The last question about a call is open again.
UPDATE placet_requests SET status = 'pending', closing = NULL
WHERE ordinal = (SELECT ordinal FROM placet_requests WHERE run = ? AND call = ? ORDER BY number DESC LIMIT 1);

-- name: next_epoch
-- A number that no lease has had.
UPDATE placet_epochs SET last = last + 1 RETURNING last;

-- name: take_lease
-- The right to drive a run goes to a new owner; one that was not given back was taken over.
UPDATE placet_runs
SET epoch = ?, owner = ?, lease_until = ?, takeovers = takeovers + (owner IS NOT NULL AND length > 0),
    news_at = CASE WHEN status = 'ended' THEN NULL ELSE coalesce(news_at, ?) END
WHERE number = ?;

-- name: end_lease
-- The right is given back. With a time: there is work left, to be found after it.
UPDATE placet_runs SET owner = NULL, lease_until = ?, news_at = ?, unseen = 0 WHERE number = ?;

-- name: forget_owner
-- A lease that was granted to somebody who had stopped waiting for it.
UPDATE placet_runs SET owner = NULL, lease_until = 0 WHERE id = ? AND owner = ?;

-- name: renew_lease
-- Move the end of a lease, if it is still the run's.
UPDATE placet_runs SET lease_until = ? WHERE id = ? AND epoch = ? AND owner IS NOT NULL RETURNING 1;

-- name: expire_lease
-- The driver is gone without giving its right back: others need not wait.
UPDATE placet_runs SET lease_until = 0 WHERE id = ? AND epoch = ? AND owner IS NOT NULL;

-- name: waiting_on
-- The runs that wait on a session, newest first.
SELECT id FROM placet_runs WHERE session = ? AND holds_session ORDER BY number DESC LIMIT 100;

-- name: keep_grant
-- A standing grant; one that was revoked stays so.
INSERT INTO placet_grants (id, agent, data) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: revoke_grant
-- A standing grant ends.
UPDATE placet_grants SET revoked = 1 WHERE id = ? AND NOT revoked;

-- name: grant_is_revoked
-- Whether a grant was taken back.
SELECT 1 FROM placet_grants WHERE id = ? AND revoked;

-- name: standing_grants
-- The grants for one agent.
SELECT data FROM placet_grants WHERE agent = ? AND NOT revoked ORDER BY id;

-- name: all_grants
-- All grants that stand.
SELECT data FROM placet_grants WHERE NOT revoked ORDER BY id;

-- name: grant_uses
-- How many calls used a grant, and whether this one is among them.
SELECT count(*), coalesce(sum(call = ?), 0) FROM placet_grant_uses WHERE grant_id = ?;

-- name: count_use
-- A call uses a grant.
INSERT INTO placet_grant_uses (grant_id, call) VALUES (?, ?);

-- name: put_hold
-- An operator holds something back; a second word about it replaces the first, unless that is somebody else's.
INSERT INTO placet_holds (kind, name, placed_by, placed_at, reason) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, name) DO UPDATE
SET placed_by = excluded.placed_by, placed_at = excluded.placed_at, reason = excluded.reason
WHERE ? OR placet_holds.placed_by IS excluded.placed_by;

-- name: remove_hold
-- It is held back no more, if it is this person's hold (null: anybody's).
DELETE FROM placet_holds WHERE kind = :kind AND name = :name AND (:placed_by IS NULL OR placed_by = :placed_by);

-- name: wake_held_run
-- A run that may have waited for a hold on it to end.
UPDATE placet_runs SET news_at = ? WHERE id = ? AND has_work AND news_at IS NULL;

-- name: wake_all_held
-- The runs that could do something and do not: a hold may be why.
UPDATE placet_runs SET news_at = ? WHERE has_work AND news_at IS NULL;

-- name: holds
-- What is held back.
SELECT kind, name, placed_by, placed_at, reason FROM placet_holds ORDER BY placed_at, kind, name;

-- name: request
-- One question.
SELECT data, status, closing, escalated_at FROM placet_requests WHERE id = ?;

-- name: requests
-- A page of questions, oldest first; `{filters}` are the conditions of the query.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE ordinal > :after {filters}
ORDER BY ordinal LIMIT :limit;

-- name: requests_of_run
-- The same for one run: they are few.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE run = (SELECT number FROM placet_runs WHERE id = :run_id) AND ordinal > :after {filters}
ORDER BY ordinal LIMIT :limit;

-- name: requests_newest
-- The same pages, newest first.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE ordinal < :after {filters}
ORDER BY ordinal DESC LIMIT :limit;

-- name: requests_of_run_newest
-- The questions of one run, newest first.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE run = (SELECT number FROM placet_runs WHERE id = :run_id) AND ordinal < :after {filters}
ORDER BY ordinal DESC LIMIT :limit;

-- name: runs
-- A page of runs, newest first; `{filters}` are the conditions of the query.
SELECT number, id, agent, status, created_at, updated_at, length, turn, session, final_output, stopped, started_by,
       owner IS NOT NULL AND lease_until > :now, news_at IS NOT NULL, takeovers, parked, wake_at, erased_at
FROM placet_runs
WHERE number < :before AND length > 0 {filters}
ORDER BY number DESC LIMIT :limit;

-- name: run
-- One run.
SELECT number, id, agent, status, created_at, updated_at, length, turn, session, final_output, stopped, started_by,
       owner IS NOT NULL AND lease_until > :now, news_at IS NOT NULL, takeovers, parked, wake_at, erased_at
FROM placet_runs
WHERE id = :id AND length > 0;

-- name: runnable
-- Runs with news, or whose time has come, that nobody drives; those that have waited longest first.
SELECT id FROM (
    SELECT * FROM (
        SELECT id, news_at AS since FROM placet_runs
        WHERE news_at IS NOT NULL AND lease_until <= :clock AND NOT parked AND length > 0
        ORDER BY news_at LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, wake_at AS since FROM placet_runs
        WHERE wake_at <= :now AND news_at IS NULL AND lease_until <= :clock AND NOT parked AND length > 0
        ORDER BY wake_at LIMIT :limit
    )
)
ORDER BY since LIMIT :limit;

-- name: numbers
-- What there is at this moment. Each count is a walk through a part of an index.
WITH news AS (
    SELECT owner IS NOT NULL AND lease_until > :now AS is_driven, parked, news_at
    FROM placet_runs WHERE news_at IS NOT NULL AND length > 0
)
SELECT :now,
       (SELECT count(*) FROM news WHERE is_driven),
       (SELECT count(*) FROM news WHERE NOT is_driven AND NOT parked),
       (SELECT min(news_at) FROM news WHERE NOT is_driven AND NOT parked),
       (SELECT count(*) FROM placet_runs WHERE status = 'waiting' AND stopped IS NULL),
       (SELECT count(*) FROM placet_runs WHERE status = 'running' AND stopped IS NULL),
       (SELECT count(*) FROM placet_runs WHERE stopped IS NOT NULL AND status <> 'ended'),
       (SELECT count(*) FROM news WHERE parked),
       (SELECT count(*) FROM placet_runs WHERE status = 'ended'),
       (SELECT count(*) FROM placet_runs WHERE ended_at > :now - 60),
       (SELECT count(*) FROM placet_requests WHERE status = 'pending'),
       (SELECT data FROM placet_requests WHERE status = 'pending' ORDER BY ordinal LIMIT 1);

-- name: park
-- Nobody drives it until an operator says so; or again, with its take-overs forgotten.
UPDATE placet_runs SET parked = ?, takeovers = CASE WHEN ? THEN takeovers ELSE 0 END WHERE id = ?;

-- name: feed
-- What was written after a place in the feed, in order.
SELECT l.sequence, r.id, l.position, l.text
FROM placet_lines l JOIN placet_runs r ON r.number = l.run
WHERE l.sequence > ? ORDER BY l.sequence LIMIT ?;

-- name: last_sequence
-- Where the feed ends.
SELECT coalesce(max(sequence), 0) FROM placet_lines;

-- name: delete_lines
-- A run's log.
DELETE FROM placet_lines WHERE run = ?;

-- name: delete_requests
-- A run's questions.
DELETE FROM placet_requests WHERE run = ?;

-- name: delete_run
-- A run's row.
DELETE FROM placet_runs WHERE number = ?;

-- name: run_to_delete
-- A run, for whoever is about to forget it.
SELECT number, length, head, owner, lease_until FROM placet_runs WHERE id = ?;

-- name: ended_before
-- Runs that ended before a time and that nobody drives.
SELECT number, id, length, head FROM placet_runs
WHERE ended_at < ? AND (owner IS NULL OR lease_until <= ?)
ORDER BY ended_at LIMIT ?;

-- name: delete_unbegun
-- Leases of runs that never began, and whose drivers are gone.
DELETE FROM placet_runs WHERE status = 'unbegun' AND lease_until <= ?;

-- name: operators_place
-- Where the operators' log stands.
SELECT length, head, key FROM placet_operators;

-- name: operators_line
-- One line of the operators' log.
INSERT INTO placet_operator_lines (position, text, checksum) VALUES (?, ?, ?);

-- name: operators_advance
-- Where the operators' log stands after a line.
UPDATE placet_operators SET length = ?, head = ?, key = ?;

-- name: operators_log
-- The operators' log in order, with the word on how long it is.
SELECT o.length, o.head, o.key, l.text, l.checksum, l.position
FROM placet_operators o LEFT JOIN placet_operator_lines l ON true
ORDER BY l.position;

-- name: lines_of
-- A run's log, for whoever is about to change it.
SELECT text, checksum, position FROM placet_lines WHERE run = ? ORDER BY position;

-- name: erase_line
-- A line without what its facts said.
UPDATE placet_lines SET text = ?, checksum = ? WHERE run = ? AND position = ?;

-- name: requests_to_erase
-- What is kept of a run's questions.
SELECT ordinal, data, closing FROM placet_requests WHERE run = ?;

-- name: erase_request
-- A question without what was asked.
UPDATE placet_requests SET data = ?, closing = ? WHERE ordinal = ?;

-- name: erase_run
-- A run's row without what it said; the key of its salts goes too.
UPDATE placet_runs
SET key = x'', final_output = NULL, stopped = NULL, started_by = NULL, session = NULL, erased_at = ?
WHERE number = ?;

-- name: secrets_of_run
-- What the log of a run is read with.
SELECT head, key FROM placet_runs WHERE number = ?;

-- name: record
-- One record, unless it has expired.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > :now);

-- name: records
-- Records of one kind in the order of their ids; `{filters}` is the owner, if one is meant.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = :kind AND id > :after AND (expires_at IS NULL OR expires_at > :now) {filters}
ORDER BY id LIMIT :limit;

-- name: add_record
-- A new record; an expired one makes room.
INSERT INTO placet_records (kind, id, owner, data, expires_at) VALUES (:kind, :id, :owner, :data, :expires_at)
ON CONFLICT (kind, id) DO UPDATE SET owner = excluded.owner, data = excluded.data, expires_at = excluded.expires_at
WHERE placet_records.expires_at <= :now;

-- name: replace_record
-- Other data under the same id, if the record is still there and is what it was.
UPDATE placet_records SET owner = :owner, data = :data, expires_at = :expires_at
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > :now) AND (:was IS NULL OR data = :was);

-- name: take_record
-- A record goes to the one who takes it.
DELETE FROM placet_records
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > :now)
RETURNING kind, id, owner, data, expires_at;

-- name: remove_records
-- All records of one kind that belong to an owner.
DELETE FROM placet_records WHERE kind = ? AND owner = ?;

-- name: expire_records
-- Some of those whose time is over.
DELETE FROM placet_records WHERE rowid IN (SELECT rowid FROM placet_records WHERE expires_at <= ? LIMIT ?);

-- name: indexed_run
-- What is indexed of a run, for the audit: the columns that its log gives.
SELECT agent, status, turn, session, holds_session, final_output, stopped, started_by, wake_at, created_at, updated_at,
       ended_at, erased_at
FROM placet_runs WHERE id = :id AND length > 0;

-- name: indexed_requests
-- What is indexed of a run's questions, for the audit.
SELECT id, call, number, status, agent, tool, data, closing, escalated_at
FROM placet_requests WHERE run = (SELECT number FROM placet_runs WHERE id = :id) ORDER BY ordinal;

-- name: indexed_grants
-- All grants, revoked or not, for the audit.
SELECT id, agent, data, revoked FROM placet_grants ORDER BY id;

-- name: strays
-- Runs of which lines or questions are there, and which no list shows.
SELECT coalesce(r.id, '(number ' || found.run || ')')
FROM (SELECT run FROM placet_lines UNION SELECT run FROM placet_requests) AS found
LEFT JOIN placet_runs r ON r.number = found.run
WHERE r.number IS NULL OR r.length = 0
ORDER BY 1;
