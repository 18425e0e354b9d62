-- An append that gives the lease back, and leases that do not wait for the disk. Older code calls what it knew.
-- oldest code: 7

-- Append lines to a run's log: all or none. `done`; `position`: the log does not end there (`stands_at` says where it
-- does), or the run has ended; `taken`: the lease is somebody else's. With `p_again` lines that are there already are a
-- success: the answer to the first try was lost. Without `p_has_work` the run is a guest's: nobody drives it, and it is
-- no news for a driver. `p_gives_back`: the driver is done with this append. Its row is locked and the log ends where it
-- thinks, so the lease can go in the same transaction: a commit, and a second version of the row, are spared.
CREATE FUNCTION placet_append_to(
    p_run text, p_epoch bigint, p_position integer, p_again boolean, p_gives_back boolean,
    p_key bytea, p_head bytea, p_texts bytea[], p_checksums bigint[],
    p_at double precision, p_agent text, p_status text, p_turn integer, p_session text, p_holds_session boolean,
    p_final_output text, p_stopped text, p_started_by text, p_wake_at double precision, p_has_work boolean,
    p_changes json,
    OUT outcome text, OUT stands_at integer
) LANGUAGE plpgsql AS $$
DECLARE
    its_number bigint;
    its_epoch bigint;
    its_owner text;
    its_status text;
    is_news boolean := p_epoch IS NULL AND p_has_work IS NOT NULL;
BEGIN
    IF p_epoch IS NULL AND p_position = 0 THEN
        INSERT INTO placet_runs (id) VALUES (p_run) ON CONFLICT (id) DO NOTHING;
    END IF;
    SELECT number, length, epoch, owner, status INTO its_number, stands_at, its_epoch, its_owner, its_status
    FROM placet_runs WHERE id = p_run FOR UPDATE;
    stands_at := coalesce(stands_at, 0);
    IF p_again AND EXISTS (
        SELECT FROM placet_lines WHERE run = its_number AND position = p_position AND text = p_texts[1]
    ) THEN
        outcome := 'done';
        RETURN;
    END IF;
    IF p_epoch IS NOT NULL AND (its_owner IS NULL OR its_epoch <> p_epoch) THEN
        outcome := 'taken';
        RETURN;
    END IF;
    IF stands_at <> p_position OR its_status = 'ended' THEN
        outcome := 'position';
        RETURN;
    END IF;
    INSERT INTO placet_lines (sequence, run, position, text, checksum)
    SELECT (SELECT base FROM placet_feed) + (pg_current_xact_id()::text::bigint << 16) + n - 1,
           its_number, p_position + n - 1, line, checksum
    FROM unnest(p_texts, p_checksums) WITH ORDINALITY AS given (line, checksum, n);
    UPDATE placet_runs SET
        length = p_position + cardinality(p_texts), head = p_head, agent = p_agent, status = p_status,
        key = CASE WHEN p_position = 0 THEN p_key ELSE key END,
        created_at = CASE WHEN p_position = 0 THEN p_at ELSE created_at END,
        started_by = CASE WHEN p_position = 0 THEN p_started_by ELSE started_by END,
        updated_at = p_at, ended_at = CASE WHEN p_status = 'ended' THEN p_at END,
        turn = p_turn, session = p_session, holds_session = p_holds_session,
        final_output = p_final_output, stopped = p_stopped, has_work = coalesce(p_has_work, false), wake_at = p_wake_at,
        unseen = is_news,
        owner = CASE WHEN NOT p_gives_back THEN owner END,
        lease_until = CASE WHEN p_gives_back OR (is_news AND owner IS NULL) THEN 0 ELSE lease_until END,
        news_at = CASE
            WHEN p_status = 'ended' OR p_gives_back THEN NULL
            WHEN is_news THEN coalesce(news_at, p_at)
            ELSE news_at
        END
    WHERE number = its_number;
    IF p_changes IS NOT NULL THEN
        PERFORM placet_change_requests(its_number, p_changes);
    END IF;
    outcome := 'done';
END $$;

-- As placet_lease_at, without waiting for the disk: all that a driver does begins with an append, which is written to
-- the disk behind the lease. A server that goes down in between forgets a lease under which nothing was done. It must
-- never give that lease's number to another, so numbers come from the clock: a sequence would go back with the server.
CREATE FUNCTION placet_lease_soon(
    p_run text, p_owner text, p_gone bigint, p_ttl double precision,
    OUT new_epoch bigint, OUT holder text, OUT stands_at integer, OUT its_head bytea
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    now double precision := placet_now();
BEGIN
    LOOP
        SELECT number, owner, epoch, lease_until, length, head INTO r FROM placet_runs WHERE id = p_run FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO placet_runs (id) VALUES (p_run) ON CONFLICT (id) DO NOTHING;
    END LOOP;
    holder := r.owner;
    stands_at := r.length;
    its_head := r.head;
    IF r.owner = p_owner THEN
        new_epoch := r.epoch;
        RETURN;
    END IF;
    IF r.owner IS NOT NULL AND r.lease_until > now AND r.epoch IS DISTINCT FROM p_gone THEN
        RETURN;
    END IF;
    new_epoch := greatest(r.epoch + 1, (now * 1000000)::bigint * 1000 + floor(random() * 1000)::bigint);
    UPDATE placet_runs SET
        epoch = new_epoch, owner = p_owner, lease_until = now + p_ttl,
        takeovers = takeovers + CASE WHEN r.owner IS NOT NULL AND r.length > 0 THEN 1 ELSE 0 END,
        news_at = CASE WHEN status = 'ended' THEN NULL ELSE coalesce(news_at, now) END
    WHERE number = r.number;
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;
