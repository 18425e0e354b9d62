-- The rows of runs: what lists show of them, what a driver finds to do, and how they are forgotten.

-- name: waiting_on
-- The runs that wait on a session, newest first.
SELECT id FROM placet_runs WHERE session = :session AND holds_session ORDER BY number DESC LIMIT 100;

-- name: runs
-- A page of runs, newest first; `{filters}` are the conditions of the query.
SELECT number, {run_record} FROM placet_runs
WHERE number < :before AND length > 0 {filters}
ORDER BY number DESC LIMIT :limit;

-- name: run
-- One run.
SELECT number, {run_record} FROM placet_runs WHERE id = :id AND length > 0;

-- name: runnable
-- Runs with news, or whose time has come, that nobody drives; those that have waited longest first.
SELECT id FROM (
    SELECT * FROM (
        SELECT id, news_at AS since FROM placet_runs
        WHERE news_at IS NOT NULL AND lease_until <= placet_now() AND NOT parked AND length > 0
        ORDER BY news_at LIMIT :limit
    ) AS with_news
    UNION ALL
    SELECT * FROM (
        SELECT id, wake_at AS since FROM placet_runs
        WHERE wake_at <= :due AND news_at IS NULL AND lease_until <= placet_now() AND NOT parked AND length > 0
        ORDER BY wake_at LIMIT :limit
    ) AS to_wake
) AS found
ORDER BY since LIMIT :limit;

-- name: guests_due
-- Sessions of guests in which something is due. The agent of no other run has a slash.
SELECT id FROM placet_runs
WHERE wake_at <= :due AND wake_at IS NOT NULL AND agent LIKE :guests AND length > 0
ORDER BY wake_at LIMIT :limit;

-- name: numbers
-- What there is at this moment. Each count is a walk through a part of an index.
WITH news AS (
    SELECT owner IS NOT NULL AND lease_until > placet_now() AS is_driven, parked, news_at
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
UPDATE placet_runs SET parked = :parked, takeovers = CASE WHEN :parked THEN takeovers ELSE 0 END WHERE id = :id;

-- name: forget_owner
-- A lease that was granted to a driver that had stopped waiting for it.
UPDATE placet_runs SET owner = NULL, lease_until = 0 WHERE id = :id AND owner = :owner;

-- name: run_to_delete
-- A run that is about to be deleted; who drives it, if a driver lives.
SELECT number, length, head, CASE WHEN lease_until > placet_now() THEN owner END
FROM placet_runs WHERE id = :id FOR UPDATE;

-- name: ended_before
-- Runs that ended before a time and that nobody drives: they are about to be deleted.
SELECT number, id, length, head FROM placet_runs
WHERE ended_at < :before AND (owner IS NULL OR lease_until <= placet_now())
ORDER BY ended_at LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: delete_lines
-- A run's log.
DELETE FROM placet_lines WHERE run = :run;

-- name: delete_requests
-- A run's requests.
DELETE FROM placet_requests WHERE run = :run;

-- name: delete_run
-- A run's row.
DELETE FROM placet_runs WHERE number = :run;

-- name: delete_unbegun
-- Leases of runs that never began, and whose drivers are dead.
DELETE FROM placet_runs WHERE status = 'unbegun' AND lease_until <= placet_now();

-- name: run_to_erase
-- A run that is about to be erased.
SELECT number, length, status, head, key FROM placet_runs WHERE id = :id FOR UPDATE;

-- name: lines_of
-- The log of a run that is about to be erased.
SELECT text, checksum, position FROM placet_lines WHERE run = :run ORDER BY position;

-- name: erase_line
-- A line without what its facts said.
UPDATE placet_lines SET text = :text, checksum = :checksum WHERE run = :run AND position = :position;

-- name: requests_to_erase
-- What is kept of a run's requests.
SELECT ordinal, data, closing FROM placet_requests WHERE run = :run;

-- name: erase_request
-- A request without what was asked.
UPDATE placet_requests SET data = :data, closing = :closing, ballot = NULL WHERE ordinal = :ordinal;

-- name: erase_run
-- A run's row without what it said; the key of its salts goes too.
UPDATE placet_runs
SET key = :key, final_output = NULL, stopped = NULL, started_by = NULL, session = NULL, erased_at = :at
WHERE number = :run;
