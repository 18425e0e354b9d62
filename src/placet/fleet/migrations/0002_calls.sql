-- A worker that has a free place is called by its name, without a job: a row of the queue that is written, fetched,
-- finished and deleted costs the database more than the appends of a whole turn.
-- oldest code: 1

-- Whether it hears calls: not behind a pooler, and not one of older code, which does not know them.
ALTER TABLE placet_workers ADD COLUMN listens boolean NOT NULL DEFAULT false;

-- How old a worker's last sign of life may be for it to be called. Less than placet_worker_patience(): a call to a
-- worker that died is found by the sweep only, a job by any other worker.
CREATE FUNCTION placet_call_patience() RETURNS double precision LANGUAGE sql IMMUTABLE AS 'SELECT 12.0::double precision';

-- Call a worker for a run; where none is free, ring for all of them. The call is as good as a ring: it is a
-- notification, so it comes only if the transaction commits, and whoever loses it finds the run by looking.
CREATE FUNCTION placet_call(p_run text, p_agent text, p_priority integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    callee bigint;
BEGIN
    SELECT id INTO callee FROM placet_workers
    WHERE listens AND NOT stopping AND driving < capacity AND p_agent = ANY (agents)
      AND seen_at > placet_now() - placet_call_patience()
    ORDER BY random() LIMIT 1;
    IF callee IS NULL THEN
        PERFORM placet_ring(p_run, p_agent, p_priority);
    ELSE
        PERFORM pg_notify('placet_worker_' || callee, p_run);
    END IF;
END $$;

CREATE FUNCTION placet_call_for_news() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lease_until <= placet_now() THEN
        PERFORM placet_call(NEW.id, NEW.agent, NEW.priority);
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER placet_runs_doorbell ON placet_runs;
CREATE TRIGGER placet_runs_doorbell AFTER UPDATE OF news_at ON placet_runs FOR EACH ROW
WHEN (NEW.news_at IS NOT NULL AND NEW.owner IS NULL AND NOT NEW.parked AND NEW.length > 0)
EXECUTE FUNCTION placet_call_for_news();
