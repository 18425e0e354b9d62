-- The statements of the fleet. Each has a name and a sentence; migrations/ says what the columns mean.

-- name: create_record
-- Which migrations of the fleet and of the queue's library were applied here.
CREATE TABLE IF NOT EXISTS placet_fleet_schema (
    name        text PRIMARY KEY,
    oldest_code integer NOT NULL DEFAULT 0,
    applied_at  timestamptz NOT NULL DEFAULT now()
);

-- name: has_record
-- Whether the fleet was ever set up in this database.
SELECT to_regclass('placet_fleet_schema') IS NOT NULL;

-- name: recorded
-- What was applied, and which code that needs at least.
SELECT name, oldest_code FROM placet_fleet_schema;

-- name: record
-- A migration was applied.
INSERT INTO placet_fleet_schema (name, oldest_code) VALUES (:name, :oldest_code) ON CONFLICT DO NOTHING;

-- name: has_queue
-- Whether there are tables of the queue's library.
SELECT to_regclass('procrastinate_jobs') IS NOT NULL;

-- name: functions
-- The names of functions that the library may have made.
SELECT proname::text FROM pg_proc WHERE proname LIKE 'procrastinate%%';

-- name: live_libraries
-- Which versions of the queue's library the workers that live were started with.
SELECT DISTINCT library FROM placet_workers WHERE seen_at > placet_now() - placet_worker_patience();

-- name: register
-- A worker begins.
INSERT INTO placet_workers (name, code, library, agents, capacity, started_at, seen_at)
VALUES (:name, :code, :library, :agents, :capacity, placet_now(), placet_now()) RETURNING id;

-- name: beat
-- A worker lives. If it was taken for dead and forgotten, it is listed again under its number.
INSERT INTO placet_workers
    (id, name, code, library, agents, capacity, driving, driven, stopping, listens, started_at, seen_at)
OVERRIDING SYSTEM VALUE
VALUES (:id, :name, :code, :library, :agents, :capacity, :driving, :driven, :stopping, :listens,
        placet_now(), placet_now())
ON CONFLICT (id) DO UPDATE SET
    seen_at = excluded.seen_at, driving = excluded.driving, driven = excluded.driven, stopping = excluded.stopping,
    listens = excluded.listens;

-- name: unregister
-- A worker ends.
DELETE FROM placet_workers WHERE id = :id;

-- name: queues
-- The queues of these agents.
SELECT placet_queue(agent) FROM unnest(:agents::text[]) AS agent;

-- name: ring
-- Ring for one run that has something to do, or for none.
SELECT placet_ring(id, agent, priority) FROM placet_runs
WHERE id = :run_id AND length > 0 AND status <> 'ended' AND NOT parked;

-- name: sweep
-- Look for what nobody was rung for: see the function.
SELECT placet_sweep(:now, :every, :limit);

-- name: pass_on
-- Have a run tried by a worker with other code: see the function.
SELECT placet_pass_on(:run_id, :now, :tried::text[], :pause);

-- name: hand_back
-- A worker that stops leaves a run in the middle: others need not wait. The trigger rings.
UPDATE placet_runs SET lease_until = 0, news_at = coalesce(news_at, placet_now())
WHERE id = :run_id AND owner IS NULL AND status IN ('running', 'waiting') AND (has_work OR unseen OR news_at IS NOT NULL);

-- name: prioritise
-- What a run is worth; of one that is about to begin, the row is made. Its start, or its next news, carries it on.
INSERT INTO placet_runs (id, priority, lease_until) VALUES (:run_id, :priority, placet_now() + 60)
ON CONFLICT (id) DO UPDATE SET priority = excluded.priority;

-- name: workers
-- The workers, oldest first; `alive` says whether they gave a sign of life lately.
SELECT id, name, code, library, agents, capacity, driving, driven, stopping, started_at, seen_at,
       seen_at > placet_now() - placet_worker_patience(), placet_now()
FROM placet_workers ORDER BY id;

-- name: has_workers
-- Whether the fleet was set up here.
SELECT to_regclass('placet_workers') IS NOT NULL;

-- name: queue_depth
-- How many rings wait to be heard.
SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'placet:advance' AND status = 'todo';
