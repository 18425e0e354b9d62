-- The statements of the PostgreSQL store. Each has a name and a sentence; migrations/ says what the columns mean and
-- holds the functions that write.

-- name: backend
-- The process of the server that answers.
SELECT pg_backend_pid();

-- name: has_schema
-- Whether there is anything of ours in this database.
SELECT to_regclass('placet_schema') IS NOT NULL;

-- name: lock_schema
-- One process migrates; the others wait here until it is done.
SELECT pg_advisory_xact_lock(7310016822413325);

-- name: applied
-- How far the schema is, and which code it needs at least.
SELECT coalesce(max(number), 0), coalesce(max(oldest_code), 0) FROM placet_schema;

-- name: create_schema_table
-- Which migrations were applied; each says the oldest code that can work with it.
CREATE TABLE IF NOT EXISTS placet_schema (
    number      integer PRIMARY KEY,
    oldest_code integer NOT NULL,
    name        text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);

-- name: record_migration
-- A migration was applied.
INSERT INTO placet_schema (number, oldest_code, name) VALUES (%s, %s, %s);

-- name: feed_is_behind
-- Whether this server's transactions have lower numbers than the feed has seen: a dump from another one was loaded.
SELECT coalesce(max(l.sequence), 0) >= max(f.base) + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 16)
FROM placet_feed f LEFT JOIN LATERAL (SELECT max(sequence) AS sequence FROM placet_lines) l ON true;

-- name: lift_feed
-- Let the feed go on above what it has.
UPDATE placet_feed SET base = (SELECT max(sequence) + 1 FROM placet_lines);

-- name: load
-- A run's log in order, with the row's word on how long it is.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position
FROM placet_runs r LEFT JOIN placet_lines l ON l.run = r.number
WHERE r.id = %(id)s AND r.length > 0
ORDER BY l.position;

-- name: cached_at
-- After how many lines the fold of a run was last cached by code of a version.
SELECT f.position FROM placet_folds f JOIN placet_runs r ON r.number = f.run
WHERE r.id = %(id)s AND f.version = %(version)s;

-- name: cached_fold
-- The cached fold of a run by code of a version.
SELECT f.position, f.size, f.version, f.checksum, f.data
FROM placet_folds f JOIN placet_runs r ON r.number = f.run
WHERE r.id = %(id)s AND f.version = %(version)s;

-- name: load_from
-- A run's log from a line on.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position
FROM placet_runs r LEFT JOIN placet_lines l ON l.run = r.number AND l.position >= %(start)s
WHERE r.id = %(id)s AND r.length > 0
ORDER BY l.position;

-- name: cache_fold
-- A fold takes the place of an earlier one.
INSERT INTO placet_folds (run, position, size, version, checksum, data)
SELECT number, %(position)s, %(size)s, %(version)s, %(checksum)s, %(data)s FROM placet_runs WHERE id = %(id)s
ON CONFLICT (run) DO UPDATE SET position = excluded.position, size = excluded.size, version = excluded.version,
    checksum = excluded.checksum, data = excluded.data;

-- name: drop_fold
-- A run's cached fold.
DELETE FROM placet_folds WHERE run = (SELECT number FROM placet_runs WHERE id = %(id)s);

-- name: append
-- Append lines to a log: see the function.
SELECT outcome, stands_at FROM placet_append(
    %(run_id)s, %(epoch)s, %(position)s, %(again)s, %(key)s, %(head)s, %(texts)s, %(checksums)s,
    %(at)s, %(agent)s, %(status)s, %(turn)s, %(session)s, %(holds_session)s,
    %(final_output)s, %(stopped)s, %(started_by)s, %(wake_at)s, %(has_work)s, %(changes)s, %(grants)s
);

-- name: lease
-- Take the right to drive a run: see the function.
SELECT new_epoch, holder FROM placet_lease(%(run_id)s, %(owner)s, %(gone)s, %(ttl)s);

-- name: release
-- Give the right back: see the function.
SELECT placet_release(%(run_id)s, %(epoch)s, %(length)s, %(pause)s);

-- name: forget_owner
-- A lease that was granted to somebody who had stopped waiting for it.
UPDATE placet_runs SET owner = NULL, lease_until = 0 WHERE id = %(run_id)s AND owner = %(owner)s;

-- name: renew_leases
-- Move the ends of leases that are still their runs'.
UPDATE placet_runs r SET lease_until = placet_now() + %(ttl)s
FROM unnest(%(ids)s::text[], %(epochs)s::bigint[]) AS held (id, epoch)
WHERE r.id = held.id AND r.epoch = held.epoch AND r.owner IS NOT NULL
RETURNING r.id, r.epoch;

-- name: expire_leases
-- The drivers are gone without giving their rights back: others need not wait.
UPDATE placet_runs r SET lease_until = 0
FROM unnest(%(ids)s::text[], %(epochs)s::bigint[]) AS gone (id, epoch)
WHERE r.id = gone.id AND r.epoch = gone.epoch AND r.owner IS NOT NULL;

-- name: waiting_on
-- The runs that wait on a session, newest first.
SELECT id FROM placet_runs WHERE session = %(session)s AND holds_session ORDER BY number DESC LIMIT 100;

-- name: put_grant
-- A standing grant that was made outside of any run.
INSERT INTO placet_grants (id, agent, data) VALUES (%(id)s, %(agent)s, %(data)s) ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: revoke_grant
-- A standing grant ends.
UPDATE placet_grants SET revoked = true WHERE id = %(id)s AND NOT revoked RETURNING 1;

-- name: standing_grants
-- The grants for one agent.
SELECT data FROM placet_grants WHERE agent = %(agent)s AND NOT revoked ORDER BY id;

-- name: all_grants
-- All grants that stand.
SELECT data FROM placet_grants WHERE NOT revoked ORDER BY id;

-- name: use_grant
-- Count one use of a grant: see the function.
SELECT placet_use_grant(%(grant)s, %(call)s, %(uses)s);

-- name: put_hold
-- An operator holds something back; a second word about it replaces the first, unless that is somebody else's.
INSERT INTO placet_holds (kind, name, placed_by, placed_at, reason)
VALUES (%(kind)s, %(name)s, %(by)s, %(at)s, %(reason)s)
ON CONFLICT (kind, name) DO UPDATE
SET placed_by = excluded.placed_by, placed_at = excluded.placed_at, reason = excluded.reason
WHERE %(over_others)s OR placet_holds.placed_by IS NOT DISTINCT FROM excluded.placed_by
RETURNING true;

-- name: remove_hold
-- It is held back no more, if it is this person's hold (null: anybody's): see the function.
SELECT placet_remove_hold(%(kind)s, %(name)s)
WHERE %(placed_by)s::text IS NULL OR EXISTS (
    SELECT 1 FROM placet_holds WHERE kind = %(kind)s AND name = %(name)s AND placed_by = %(placed_by)s::text
);

-- name: holds
-- What is held back.
SELECT kind, name, placed_by, placed_at, reason FROM placet_holds ORDER BY placed_at, kind, name;

-- name: request
-- One question.
SELECT data, status, closing, escalated_at FROM placet_requests WHERE id = %(id)s;

-- name: requests
-- A page of questions, oldest first; `{filters}` are the conditions of the query.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE ordinal > %(after)s {filters}
ORDER BY ordinal LIMIT %(limit)s;

-- name: requests_of_run
-- The same for one run: they are few.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE run = (SELECT number FROM placet_runs WHERE id = %(run_id)s) AND ordinal > %(after)s {filters}
ORDER BY ordinal LIMIT %(limit)s;

-- name: requests_newest
-- The same pages, newest first.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE ordinal < %(after)s {filters}
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: requests_of_run_newest
-- The questions of one run, newest first.
SELECT ordinal, data, status, closing, escalated_at FROM placet_requests
WHERE run = (SELECT number FROM placet_runs WHERE id = %(run_id)s) AND ordinal < %(after)s {filters}
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: runs
-- A page of runs, newest first; `{filters}` are the conditions of the query.
SELECT number, id, agent, status, created_at, updated_at, length, turn, session, final_output, stopped, started_by,
       owner IS NOT NULL AND lease_until > placet_now(), news_at IS NOT NULL, takeovers, parked, wake_at, erased_at
FROM placet_runs
WHERE number < %(before)s AND length > 0 {filters}
ORDER BY number DESC LIMIT %(limit)s;

-- name: run
-- One run.
SELECT number, id, agent, status, created_at, updated_at, length, turn, session, final_output, stopped, started_by,
       owner IS NOT NULL AND lease_until > placet_now(), news_at IS NOT NULL, takeovers, parked, wake_at, erased_at
FROM placet_runs
WHERE id = %(id)s AND length > 0;

-- name: runnable
-- Runs with news, or whose time has come, that nobody drives; those that have waited longest first.
SELECT id FROM (
    (
        SELECT id, news_at AS since FROM placet_runs
        WHERE news_at IS NOT NULL AND lease_until <= placet_now() AND NOT parked AND length > 0
        ORDER BY news_at LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT id, wake_at AS since FROM placet_runs
        WHERE wake_at <= %(now)s AND news_at IS NULL AND lease_until <= placet_now() AND NOT parked AND length > 0
        ORDER BY wake_at LIMIT %(limit)s
    )
) AS found
ORDER BY since LIMIT %(limit)s;

-- name: numbers
-- What there is at this moment. Each count is a walk through a part of an index.
WITH news AS (
    SELECT owner IS NOT NULL AND lease_until > placet_now() AS is_driven, parked, news_at, lease_until
    FROM placet_runs WHERE news_at IS NOT NULL AND length > 0
)
SELECT placet_now(),
       (SELECT count(*) FROM news WHERE is_driven),
       (SELECT count(*) FROM news WHERE NOT is_driven AND NOT parked),
       (SELECT min(news_at) FROM news WHERE NOT is_driven AND NOT parked),
       (SELECT count(*) FROM placet_runs WHERE status = 'waiting' AND stopped IS NULL),
       (SELECT count(*) FROM placet_runs WHERE status = 'running' AND stopped IS NULL),
       (SELECT count(*) FROM placet_runs WHERE stopped IS NOT NULL AND status <> 'ended'),
       (SELECT count(*) FROM news WHERE parked),
       (SELECT count(*) FROM placet_runs WHERE status = 'ended'),
       (SELECT count(*) FROM placet_runs WHERE ended_at > placet_now() - 60),
       (SELECT count(*) FROM placet_requests WHERE status = 'pending'),
       (SELECT data FROM placet_requests WHERE status = 'pending' ORDER BY ordinal LIMIT 1);

-- name: park
-- Nobody drives it until an operator says so; or again, with its take-overs forgotten.
UPDATE placet_runs SET parked = %(parked)s, takeovers = CASE WHEN %(parked)s THEN takeovers ELSE 0 END
WHERE id = %(id)s;

-- name: feed
-- What was written after a place in the feed, in order, as far as it is settled.
SELECT l.sequence, r.id, l.position, l.text
FROM placet_lines l JOIN placet_runs r ON r.number = l.run
WHERE l.sequence > %(after)s AND l.sequence < placet_settled()
ORDER BY l.sequence LIMIT %(limit)s;

-- name: last_sequence
-- Where the feed ends, as far as it is settled: whoever goes on from here misses nothing.
SELECT coalesce(max(sequence), 0) FROM placet_lines WHERE sequence < placet_settled();

-- name: news
-- Whether the feed goes on after a place: settled already, or about to be.
SELECT EXISTS (SELECT FROM placet_lines WHERE sequence > %(after)s AND sequence < placet_settled()),
       EXISTS (SELECT FROM placet_lines WHERE sequence > %(after)s);

-- name: announce
-- Tell whoever listens that there is news; without waiting for the disk, since a ring may be lost.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('placet_news', '');

-- name: run_to_delete
-- A run, for whoever is about to forget it; who drives it, if somebody does.
SELECT number, length, head, CASE WHEN lease_until > placet_now() THEN owner END
FROM placet_runs WHERE id = %(id)s FOR UPDATE;

-- name: ended_before
-- Runs that ended before a time and that nobody drives, for whoever is about to forget them.
SELECT number, id, length, head FROM placet_runs
WHERE ended_at < %(before)s AND (owner IS NULL OR lease_until <= placet_now())
ORDER BY ended_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: forget_runs
-- Runs with their logs and questions; a cached fold goes with its run.
WITH lines AS (
    DELETE FROM placet_lines WHERE run = ANY(%(numbers)s)
), requests AS (
    DELETE FROM placet_requests WHERE run = ANY(%(numbers)s)
)
DELETE FROM placet_runs WHERE number = ANY(%(numbers)s);

-- name: delete_unbegun
-- Leases of runs that never began, and whose drivers are gone.
DELETE FROM placet_runs WHERE status = 'unbegun' AND lease_until <= placet_now();

-- name: operators_place
-- Where the operators' log stands; whoever asks writes to it next.
SELECT length, head, key FROM placet_operators FOR UPDATE;

-- name: operators_last
-- The last line of the operators' log.
SELECT text FROM placet_operator_lines ORDER BY position DESC LIMIT 1;

-- name: operators_line
-- One line of the operators' log.
INSERT INTO placet_operator_lines (position, text, checksum) VALUES (%(position)s, %(text)s, %(checksum)s);

-- name: operators_advance
-- Where the operators' log stands after a line.
UPDATE placet_operators SET length = %(length)s, head = %(head)s, key = %(key)s;

-- name: operators_log
-- The operators' log in order, with the word on how long it is.
SELECT o.length, o.head, o.key, l.text, l.checksum, l.position
FROM placet_operators o LEFT JOIN placet_operator_lines l ON true
ORDER BY l.position;

-- name: known_grants
-- Which of these grants are known, and whether they were revoked.
SELECT id, revoked FROM placet_grants WHERE id = ANY(%(ids)s);

-- name: run_to_erase
-- A run, for whoever is about to erase it.
SELECT number, length, status, head, key FROM placet_runs WHERE id = %(id)s FOR UPDATE;

-- name: lines_of
-- A run's log, for whoever is about to change it.
SELECT text, checksum, position FROM placet_lines WHERE run = %(run)s ORDER BY position;

-- name: erase_lines
-- Lines without what their facts said.
UPDATE placet_lines l SET text = given.text, checksum = given.checksum
FROM unnest(%(positions)s::integer[], %(texts)s::bytea[], %(checksums)s::bigint[]) AS given (position, text, checksum)
WHERE l.run = %(run)s AND l.position = given.position;

-- name: requests_to_erase
-- What is kept of a run's questions.
SELECT ordinal, data, closing FROM placet_requests WHERE run = %(run)s;

-- name: erase_request
-- A question without what was asked.
UPDATE placet_requests SET data = %(data)s, closing = %(closing)s WHERE ordinal = %(ordinal)s;

-- name: erase_run
-- A run's row without what it said; the key of its salts goes too.
UPDATE placet_runs
SET key = '', final_output = NULL, stopped = NULL, started_by = NULL, session = NULL, erased_at = %(at)s
WHERE number = %(run)s;

-- name: record
-- One record, unless it has expired.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = %(kind)s AND id = %(id)s AND (expires_at IS NULL OR expires_at > placet_now());

-- name: records
-- Records of one kind in the order of their ids; `{filters}` is the owner, if one is meant.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = %(kind)s AND id > %(after)s AND (expires_at IS NULL OR expires_at > placet_now()) {filters}
ORDER BY id LIMIT %(limit)s;

-- name: add_record
-- A new record; an expired one makes room.
INSERT INTO placet_records (kind, id, owner, data, expires_at)
VALUES (%(kind)s, %(id)s, %(owner)s, %(data)s, %(expires_at)s)
ON CONFLICT (kind, id) DO UPDATE SET owner = excluded.owner, data = excluded.data, expires_at = excluded.expires_at
WHERE placet_records.expires_at <= placet_now()
RETURNING 1;

-- name: replace_record
-- Other data under the same id, if the record is still there and is what it was.
UPDATE placet_records SET owner = %(owner)s, data = %(data)s, expires_at = %(expires_at)s
WHERE kind = %(kind)s AND id = %(id)s AND (expires_at IS NULL OR expires_at > placet_now())
    AND (%(was)s::text IS NULL OR data = %(was)s::text)
RETURNING 1;

-- name: take_record
-- A record goes to the one who takes it.
DELETE FROM placet_records
WHERE kind = %(kind)s AND id = %(id)s AND (expires_at IS NULL OR expires_at > placet_now())
RETURNING kind, id, owner, data, expires_at;

-- name: remove_records
-- All records of one kind that belong to an owner.
DELETE FROM placet_records WHERE kind = %(kind)s AND owner = %(owner)s RETURNING 1;

-- name: expire_records
-- Some of those whose time is over.
DELETE FROM placet_records WHERE (kind, id) IN (
    SELECT kind, id FROM placet_records WHERE expires_at <= placet_now() LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
RETURNING 1;

-- name: indexed_run
-- What is indexed of a run, for the audit: the columns that its log gives.
SELECT agent, status, turn, session, holds_session, final_output, stopped, started_by, wake_at, created_at, updated_at,
       ended_at, erased_at
FROM placet_runs WHERE id = %(id)s AND length > 0;

-- name: indexed_requests
-- What is indexed of a run's questions, for the audit.
SELECT id, call, number, status, agent, tool, data, closing, escalated_at
FROM placet_requests WHERE run = (SELECT number FROM placet_runs WHERE id = %(id)s) ORDER BY ordinal;

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
