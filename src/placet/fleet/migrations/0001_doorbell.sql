-- The fleet's first schema: who works, the doorbell that every transaction with news rings, and the sweep.
-- Functions are not changed by later migrations, because older code may still call them: a new one gets a new name.
-- oldest code: 1

-- What runs with a higher number are worth to workers that have the choice.
ALTER TABLE placet_runs ADD COLUMN IF NOT EXISTS priority integer NOT NULL DEFAULT 0;

-- One row a worker, kept fresh while it lives. `code` is a digest of the agents, tools and facts that it knows.
CREATE TABLE placet_workers (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    code        text NOT NULL,
    library     text NOT NULL,
    agents      text[] NOT NULL,
    capacity    integer NOT NULL,
    driving     integer NOT NULL DEFAULT 0,
    driven      bigint NOT NULL DEFAULT 0,
    stopping    boolean NOT NULL DEFAULT false,
    started_at  double precision NOT NULL,
    seen_at     double precision NOT NULL
) WITH (fillfactor = 50);

-- One row for the whole fleet: when it was swept last.
CREATE TABLE placet_fleet (swept_at double precision NOT NULL);
INSERT INTO placet_fleet (swept_at) VALUES (0);

-- How long a worker counts as alive without a word.
CREATE FUNCTION placet_worker_patience() RETURNS double precision LANGUAGE sql IMMUTABLE AS 'SELECT 30.0::double precision';

-- The queue of an agent. Its name is part of the name of a channel, and those have to be shorter than 64 bytes.
CREATE FUNCTION placet_queue(p_agent text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT 'placet:' || CASE WHEN octet_length(p_agent) <= 32 THEN p_agent ELSE '#' || md5(p_agent) END $$;

-- Ring for a run: one waiting job at most, however often it is rung. Nobody is rung for where nobody lives who has the
-- agent: whoever comes later finds the run by looking.
CREATE FUNCTION placet_ring(p_run text, p_agent text, p_priority integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM placet_workers
        WHERE seen_at > placet_now() - placet_worker_patience() AND NOT stopping AND p_agent = ANY (agents)
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args)
    VALUES (placet_queue(p_agent), 'placet:advance', p_priority, 'placet:' || p_run, jsonb_build_object('run', p_run))
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Whatever gives a run news rings in the same transaction: its start, a decision, a cancellation, a hold that ended.
CREATE FUNCTION placet_ring_for_news() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lease_until <= placet_now() THEN
        PERFORM placet_ring(NEW.id, NEW.agent, NEW.priority);
    END IF;
    RETURN NULL;
END $$;

-- A run that somebody drives needs no bell: its driver looks at the log once more before it lets go.
CREATE TRIGGER placet_runs_doorbell AFTER UPDATE OF news_at ON placet_runs FOR EACH ROW
WHEN (NEW.news_at IS NOT NULL AND NEW.owner IS NULL AND NOT NEW.parked AND NEW.length > 0)
EXECUTE FUNCTION placet_ring_for_news();

-- Look for what nobody was rung for, once in `p_every` seconds in the whole fleet: runs with news that nobody drives
-- (their driver died, their bell was lost), questions whose time has come, jobs and workers that are left over.
-- Null when somebody looked a moment ago.
CREATE FUNCTION placet_sweep(p_now double precision, p_every double precision, p_limit integer)
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
            WHERE news_at IS NOT NULL AND lease_until <= placet_now() AND NOT parked AND length > 0
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

-- A worker cannot drive this run: it lacks a tool, or cannot read a fact. Have it tried by one with other code, in the
-- queue of that worker alone. `passed`; `nowhere`: no worker that lives has code that was not tried, and the run is
-- left alone for `p_pause` seconds; `driven`: there is nothing to pass on.
CREATE FUNCTION placet_pass_on(p_run text, p_now double precision, p_tried text[], p_pause double precision)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs;
    other bigint;
BEGIN
    SELECT * INTO r FROM placet_runs WHERE id = p_run FOR UPDATE;
    IF r.id IS NULL OR r.parked OR r.length = 0 OR r.lease_until > placet_now()
       OR (r.news_at IS NULL AND coalesce(r.wake_at > p_now, true)) THEN
        RETURN 'driven';
    END IF;
    SELECT id INTO other FROM placet_workers
    WHERE seen_at > placet_now() - placet_worker_patience() AND NOT stopping
      AND r.agent = ANY (agents) AND code <> ALL (p_tried)
    ORDER BY started_at DESC LIMIT 1;
    IF other IS NULL THEN
        UPDATE placet_runs SET lease_until = placet_now() + p_pause WHERE number = r.number AND owner IS NULL;
        RETURN 'nowhere';
    END IF;
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args)
    VALUES ('placet:@' || other, 'placet:advance', r.priority, 'placet:' || p_run || '@' || other,
            jsonb_build_object('run', p_run, 'tried', to_jsonb(p_tried)))
    ON CONFLICT DO NOTHING;
    RETURN 'passed';
END $$;
