-- The sweep leaves alone what is younger than itself: a worker was called for it a moment ago and takes it up just now.
-- On a busy fleet it put a job into the queue for each of those, and each was fetched to find that all was done.
-- oldest code: 1

-- What older code asks means what it meant, so the function keeps its name.
CREATE OR REPLACE FUNCTION placet_sweep(p_now double precision, p_every double precision, p_limit integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    rung integer;
BEGIN
    PERFORM FROM placet_fleet WHERE swept_at <= placet_now() - p_every FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE placet_fleet SET swept_at = placet_now();
    WITH alive AS (
        SELECT DISTINCT unnest(agents) AS agent FROM placet_workers
        WHERE seen_at > placet_now() - placet_worker_patience() AND NOT stopping
    ), overdue AS (
        (
            SELECT id, agent, priority FROM placet_runs
            WHERE news_at IS NOT NULL AND news_at NOT BETWEEN placet_now() - p_every AND placet_now() AND lease_until <= placet_now() AND NOT parked AND length > 0
              AND agent IN (SELECT agent FROM alive)
              AND NOT EXISTS (SELECT FROM procrastinate_jobs j
                              WHERE j.queueing_lock = 'placet:' || placet_runs.id AND j.status = 'todo')
            ORDER BY news_at LIMIT p_limit
        )
        UNION
        (
            SELECT id, agent, priority FROM placet_runs
            WHERE wake_at <= p_now AND lease_until <= placet_now() AND NOT parked AND length > 0
              AND agent IN (SELECT agent FROM alive)
            ORDER BY wake_at LIMIT p_limit
        )
    )
    SELECT count(*) FILTER (WHERE placet_ring(id, agent, priority)) INTO rung FROM overdue;
    DELETE FROM procrastinate_jobs j
    WHERE j.task_name = 'placet:advance' AND j.status <> 'todo' AND (
        j.status <> 'doing' OR j.worker_id IS NULL OR NOT EXISTS (
            SELECT FROM procrastinate_workers w
            WHERE w.id = j.worker_id AND w.last_heartbeat > now() - make_interval(secs => 2 * placet_worker_patience())
        )
    );
    DELETE FROM procrastinate_jobs j
    WHERE j.task_name = 'placet:advance' AND j.status = 'todo' AND j.queue_name LIKE 'placet:@%' AND NOT EXISTS (
        SELECT FROM placet_workers WHERE 'placet:@' || id = j.queue_name
    );
    DELETE FROM placet_workers WHERE seen_at < placet_now() - 10 * placet_worker_patience();
    RETURN rung;
END $$;
