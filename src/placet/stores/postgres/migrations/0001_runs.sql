-- The first schema: logs, the rows of runs, the questions that wait, grants, holds, and the functions that write them.
-- Functions are not changed by later migrations, because older code may still call them: a new one gets a new name.
-- oldest code: 1

-- One row a run. The status `unbegun` is a mere lease: somebody is about to begin the run.
-- What every append changes (length, head, updated_at, turn, unseen) and every renewal (lease_until) is in no index:
-- such updates touch one page and nothing else. The room that is left in each page is for them.
CREATE TABLE placet_runs (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text NOT NULL UNIQUE,
    agent         text NOT NULL DEFAULT '',
    status        text NOT NULL DEFAULT 'unbegun',
    length        integer NOT NULL DEFAULT 0,
    head          bytea NOT NULL DEFAULT '',
    key           bytea NOT NULL DEFAULT '',
    epoch         bigint NOT NULL DEFAULT 0,
    owner         text,
    lease_until   double precision NOT NULL DEFAULT 0,
    takeovers     integer NOT NULL DEFAULT 0,
    parked        boolean NOT NULL DEFAULT false,
    news_at       double precision,
    unseen        boolean NOT NULL DEFAULT false,
    has_work      boolean NOT NULL DEFAULT false,
    wake_at       double precision,
    created_at    double precision NOT NULL DEFAULT 0,
    updated_at    double precision NOT NULL DEFAULT 0,
    ended_at      double precision,
    turn          integer NOT NULL DEFAULT 0,
    session       text,
    holds_session boolean NOT NULL DEFAULT false,
    final_output  text,
    stopped       text,
    started_by    text
) WITH (fillfactor = 80);
CREATE INDEX placet_runs_by_status ON placet_runs (status, number);
CREATE INDEX placet_runs_by_agent ON placet_runs (agent, number);
CREATE INDEX placet_runs_by_agent_status ON placet_runs (agent, status, number);
CREATE INDEX placet_runs_with_news ON placet_runs (news_at) WHERE news_at IS NOT NULL;
CREATE INDEX placet_runs_to_wake ON placet_runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX placet_runs_with_work ON placet_runs (number) WHERE has_work AND news_at IS NULL;
CREATE INDEX placet_runs_on_sessions ON placet_runs (session, number) WHERE holds_session;
CREATE INDEX placet_runs_ended ON placet_runs (ended_at) WHERE ended_at IS NOT NULL;

-- The logs. `sequence` orders the lines of all runs: it is made of the writing transaction's number, so that a reader
-- who stays below all running transactions never misses one (a serial would become visible out of order).
CREATE TABLE placet_lines (
    sequence bigint PRIMARY KEY,
    run      bigint NOT NULL,
    position integer NOT NULL,
    text     bytea NOT NULL,
    checksum bigint NOT NULL,
    UNIQUE (run, position)
);

-- What is added to transaction numbers: larger after a dump was loaded into a server that counts from lower numbers.
CREATE TABLE placet_feed (base bigint NOT NULL);
INSERT INTO placet_feed (base) VALUES (0);

-- The questions to people, in the order in which they were asked.
CREATE TABLE placet_requests (
    ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      text NOT NULL UNIQUE,
    run     bigint NOT NULL,
    call    text NOT NULL,
    number  integer NOT NULL,
    status  text NOT NULL,
    agent   text NOT NULL,
    tool    text NOT NULL,
    data    text NOT NULL,
    closing text
);
CREATE INDEX placet_requests_by_run ON placet_requests (run, call, number);
CREATE INDEX placet_requests_by_status ON placet_requests (status, ordinal);
CREATE INDEX placet_requests_by_agent ON placet_requests (agent, status, ordinal);
CREATE INDEX placet_requests_by_tool ON placet_requests (tool, status, ordinal);

-- The standing decisions that reach beyond their run. A revoked one stays, so that no old log brings it back.
CREATE TABLE placet_grants (
    id      text PRIMARY KEY,
    agent   text NOT NULL,
    data    text NOT NULL,
    revoked boolean NOT NULL DEFAULT false
);
CREATE INDEX placet_grants_by_agent ON placet_grants (agent) WHERE NOT revoked;

-- Which calls used a grant that is limited to a number of uses.
CREATE TABLE placet_grant_uses (
    grant_id text NOT NULL,
    call     text NOT NULL,
    PRIMARY KEY (grant_id, call)
);

-- What operators hold back.
CREATE TABLE placet_holds (
    kind      text NOT NULL,
    name      text NOT NULL,
    placed_by text,
    placed_at double precision NOT NULL,
    reason    text,
    PRIMARY KEY (kind, name)
);

-- Gives every lease its epoch.
CREATE SEQUENCE placet_epochs;

-- The database's clock, in seconds: all processes measure leases by it.
CREATE FUNCTION placet_now() RETURNS double precision LANGUAGE sql VOLATILE
AS 'SELECT extract(epoch FROM clock_timestamp())::double precision';

-- Everything below this number in the feed is settled: no transaction that still runs can add to it.
CREATE FUNCTION placet_settled() RETURNS bigint LANGUAGE sql STABLE
AS 'SELECT base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 16) FROM placet_feed';

-- The questions of a run after an append. `p_changes` is a list of objects, each with the `op` open, close or reopen.
CREATE FUNCTION placet_change_requests(p_run bigint, p_changes json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    change json;
BEGIN
    FOR change IN SELECT * FROM json_array_elements(p_changes) LOOP
        IF change->>'op' = 'reopen' THEN
            UPDATE placet_requests SET status = 'pending', closing = NULL
            WHERE ordinal = (
                SELECT ordinal FROM placet_requests WHERE run = p_run AND call = change->>'call'
                ORDER BY number DESC LIMIT 1
            );
            CONTINUE;
        END IF;
        UPDATE placet_requests SET status = change->>'status', closing = change->>'closing'
        WHERE run = p_run AND call = change->>'call' AND status = 'pending';
        IF change->>'op' = 'open' THEN
            INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
            VALUES (change->>'id', p_run, change->>'call', (change->>'number')::integer, 'pending',
                    change->>'agent', change->>'tool', change->>'data')
            ON CONFLICT (id) DO UPDATE SET status = 'pending', data = excluded.data, closing = NULL;
        END IF;
    END LOOP;
END $$;

-- The standing grants after an append. `p_grants` is a list of objects, each with the `op` made or revoked.
CREATE FUNCTION placet_change_grants(p_grants json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    change json;
BEGIN
    FOR change IN SELECT * FROM json_array_elements(p_grants) LOOP
        IF change->>'op' = 'made' THEN
            INSERT INTO placet_grants (id, agent, data)
            VALUES (change->>'id', change->>'agent', change->>'data') ON CONFLICT (id) DO NOTHING;
        ELSE
            UPDATE placet_grants SET revoked = true WHERE id = change->>'id';
        END IF;
    END LOOP;
END $$;

-- Lock the row of a run, and make it if there is none.
CREATE FUNCTION placet_locked_run(p_id text) RETURNS placet_runs LANGUAGE plpgsql AS $$
DECLARE
    found_run placet_runs;
BEGIN
    LOOP
        SELECT * INTO found_run FROM placet_runs WHERE id = p_id FOR UPDATE;
        IF FOUND THEN
            RETURN found_run;
        END IF;
        INSERT INTO placet_runs (id) VALUES (p_id) ON CONFLICT (id) DO NOTHING;
    END LOOP;
END $$;

-- Append lines to a run's log: all or none. `done`; `position`: the log does not end there (`stands_at` says where it
-- does), or the run has ended; `taken`: the lease is somebody else's. With `p_again` lines that are there already are a success: the answer
-- to the first try was lost.
CREATE FUNCTION placet_append(
    p_run text, p_epoch bigint, p_position integer, p_again boolean,
    p_key bytea, p_head bytea, p_texts bytea[], p_checksums bigint[],
    p_at double precision, p_agent text, p_status text, p_turn integer, p_session text, p_holds_session boolean,
    p_final_output text, p_stopped text, p_started_by text, p_wake_at double precision, p_has_work boolean,
    p_changes json, p_grants json,
    OUT outcome text, OUT stands_at integer
) LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs;
    first_sequence bigint;
BEGIN
    IF p_epoch IS NULL AND p_position = 0 THEN
        r := placet_locked_run(p_run);
    ELSE
        SELECT * INTO r FROM placet_runs WHERE id = p_run FOR UPDATE;
    END IF;
    stands_at := coalesce(r.length, 0);
    IF p_again AND EXISTS (
        SELECT FROM placet_lines WHERE run = r.number AND position = p_position AND text = p_texts[1]
    ) THEN
        outcome := 'done';
        RETURN;
    END IF;
    IF p_epoch IS NOT NULL AND (r.owner IS NULL OR r.epoch <> p_epoch) THEN
        outcome := 'taken';
        RETURN;
    END IF;
    IF stands_at <> p_position OR r.status = 'ended' THEN
        outcome := 'position';
        RETURN;
    END IF;
    SELECT base + (pg_current_xact_id()::text::bigint << 16) INTO first_sequence FROM placet_feed;
    INSERT INTO placet_lines (sequence, run, position, text, checksum)
    SELECT first_sequence + n - 1, r.number, p_position + n - 1, line, checksum
    FROM unnest(p_texts, p_checksums) WITH ORDINALITY AS given (line, checksum, n);
    UPDATE placet_runs SET
        length = p_position + cardinality(p_texts), head = p_head, agent = p_agent, status = p_status,
        key = CASE WHEN p_position = 0 THEN p_key ELSE key END,
        created_at = CASE WHEN p_position = 0 THEN p_at ELSE created_at END,
        started_by = CASE WHEN p_position = 0 THEN p_started_by ELSE started_by END,
        updated_at = p_at, ended_at = CASE WHEN p_status = 'ended' THEN p_at END,
        turn = p_turn, session = p_session, holds_session = p_holds_session,
        final_output = p_final_output, stopped = p_stopped, has_work = p_has_work, wake_at = p_wake_at,
        unseen = p_epoch IS NULL,
        lease_until = CASE WHEN p_epoch IS NULL AND owner IS NULL THEN 0 ELSE lease_until END,
        news_at = CASE
            WHEN p_status = 'ended' THEN NULL
            WHEN p_epoch IS NULL THEN coalesce(news_at, p_at)
            ELSE news_at
        END
    WHERE number = r.number;
    IF p_changes IS NOT NULL THEN
        PERFORM placet_change_requests(r.number, p_changes);
    END IF;
    IF p_grants IS NOT NULL THEN
        PERFORM placet_change_grants(p_grants);
    END IF;
    outcome := 'done';
END $$;

-- Take the right to drive a run. Without an epoch in the answer, `holder` is who has it. `p_gone` is the epoch of a
-- lease whose driver is known to be gone. Asked again by the same owner (the answer was lost), it is the same lease.
CREATE FUNCTION placet_lease(
    p_run text, p_owner text, p_gone bigint, p_ttl double precision, OUT new_epoch bigint, OUT holder text
) LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs := placet_locked_run(p_run);
    now double precision := placet_now();
BEGIN
    holder := r.owner;
    IF r.owner = p_owner THEN
        new_epoch := r.epoch;
        RETURN;
    END IF;
    IF r.owner IS NOT NULL AND r.lease_until > now AND r.epoch IS DISTINCT FROM p_gone THEN
        RETURN;
    END IF;
    new_epoch := nextval('placet_epochs');
    UPDATE placet_runs SET
        epoch = new_epoch, owner = p_owner, lease_until = now + p_ttl,
        takeovers = takeovers + CASE WHEN r.owner IS NOT NULL AND r.length > 0 THEN 1 ELSE 0 END,
        news_at = CASE WHEN status = 'ended' THEN NULL ELSE coalesce(news_at, now) END
    WHERE number = r.number;
END $$;

-- Give the right back: false when the log is longer than the driver thinks. A driver that gives up in the middle
-- (`p_length` beyond the end) leaves news behind, to be found after a pause.
CREATE FUNCTION placet_release(p_run text, p_epoch bigint, p_length bigint, p_pause double precision)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs;
    leaves_work boolean;
BEGIN
    SELECT * INTO r FROM placet_runs WHERE id = p_run AND epoch = p_epoch AND owner IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    ELSIF r.length > p_length THEN
        RETURN false;
    ELSIF r.length = 0 THEN
        DELETE FROM placet_runs WHERE number = r.number;
        RETURN true;
    END IF;
    leaves_work := r.length < p_length AND (r.unseen OR r.has_work);
    UPDATE placet_runs SET
        owner = NULL, unseen = false,
        lease_until = CASE WHEN leaves_work THEN placet_now() + p_pause ELSE 0 END,
        news_at = CASE WHEN leaves_work THEN placet_now() END
    WHERE number = r.number;
    RETURN true;
END $$;

-- Count one use of a grant by a call, once however often it is asked.
CREATE FUNCTION placet_use_grant(p_grant text, p_call text, p_uses integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('placet grant ' || p_grant, 0));
    IF EXISTS (SELECT FROM placet_grants WHERE id = p_grant AND revoked) THEN
        RETURN false;
    ELSIF p_uses IS NULL OR EXISTS (SELECT FROM placet_grant_uses WHERE grant_id = p_grant AND call = p_call) THEN
        RETURN true;
    ELSIF (SELECT count(*) FROM placet_grant_uses WHERE grant_id = p_grant) >= p_uses THEN
        RETURN false;
    END IF;
    INSERT INTO placet_grant_uses (grant_id, call) VALUES (p_grant, p_call);
    RETURN true;
END $$;

-- End a hold and wake what may have waited for it; false when there was none.
CREATE FUNCTION placet_remove_hold(p_kind text, p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM placet_holds WHERE kind = p_kind AND name = p_name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE placet_runs SET news_at = placet_now()
    WHERE has_work AND news_at IS NULL AND (p_kind <> 'run' OR id = p_name);
    RETURN true;
END $$;

-- Forget a run: the name of its driver if it has one, `gone` when it is gone, `unknown` when there was none.
CREATE FUNCTION placet_delete(p_run text, OUT outcome text, OUT holder text) LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs;
BEGIN
    SELECT * INTO r FROM placet_runs WHERE id = p_run FOR UPDATE;
    IF r.owner IS NOT NULL AND r.lease_until > placet_now() THEN
        outcome := 'driven';
        holder := r.owner;
        RETURN;
    END IF;
    DELETE FROM placet_lines WHERE run = r.number;
    DELETE FROM placet_requests WHERE run = r.number;
    DELETE FROM placet_runs WHERE number = r.number;
    outcome := CASE WHEN coalesce(r.length, 0) > 0 THEN 'gone' ELSE 'unknown' END;
END $$;
