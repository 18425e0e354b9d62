-- The statements that only PostgreSQL has: its functions (see the migrations), many rows at once, listening, locks.

-- name: backend
-- The process of the server that answers.
SELECT pg_backend_pid();

-- name: has_schema
-- Whether there is anything of ours in this database.
SELECT to_regclass('placet_schema') IS NOT NULL;

-- name: lock_schema
-- One process migrates; the others wait here until it is done.
SELECT pg_advisory_xact_lock(7310016822413325);

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
INSERT INTO placet_schema (number, oldest_code, name) VALUES (:number, :oldest_code, :name);

-- name: feed_is_behind
-- Whether this server's transactions have lower numbers than the feed has seen: a dump from another one was loaded.
SELECT coalesce(max(l.sequence), 0) >= max(f.base) + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 16)
FROM placet_feed f LEFT JOIN LATERAL (SELECT max(sequence) AS sequence FROM placet_lines) l ON true;

-- name: lift_feed
-- Let the feed go on above what it has.
UPDATE placet_feed SET base = (SELECT max(sequence) + 1 FROM placet_lines);

-- name: append
-- Append lines to a log: see the function. The grants of an append were written before it.
SELECT outcome, stands_at FROM placet_append_to(
    :run_id, :epoch, :position, :again, :gives_back, :key, :head, :texts, :checksums,
    :updated_at, :agent, :status, :turn, :session, :holds_session,
    :final_output, :stopped, :started_by, :wake_at, :has_work, :changes
);

-- name: lease
-- Take the right to drive a run: see the function.
SELECT new_epoch, holder, stands_at, its_head FROM placet_lease_soon(:id, :owner, :gone, :ttl);

-- name: release
-- Give the right back: see the function.
SELECT placet_release(:id, :epoch, :length, :pause);

-- name: use_grant
-- Count one use of a grant: see the function.
SELECT placet_use_grant(:id, :call, :uses);

-- name: renew_leases
-- Move the ends of leases that are still their runs'.
UPDATE placet_runs r SET lease_until = placet_now() + :ttl
FROM unnest(:ids::text[], :epochs::bigint[]) AS held (id, epoch)
WHERE r.id = held.id AND r.epoch = held.epoch AND r.owner IS NOT NULL
RETURNING r.id, r.epoch;

-- name: expire_leases
-- The drivers died without giving their rights back: others need not wait.
UPDATE placet_runs r SET lease_until = 0
FROM unnest(:ids::text[], :epochs::bigint[]) AS expired (id, epoch)
WHERE r.id = expired.id AND r.epoch = expired.epoch AND r.owner IS NOT NULL;

-- name: announce
-- Notify who listens that there is news; without waiting for the disk, since a notification may be lost.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('placet_news', '');
