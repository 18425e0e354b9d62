-- Sessions of guests, which nobody drives.
-- oldest code: 7

-- What older code sends means what it meant, so the function keeps its name.
-- Append lines to a run's log: all or none. `done`; `position`: the log does not end there (`stands_at` says where it
-- does), or the run has ended; `taken`: the lease is somebody else's. With `p_again` lines that are there already are a success: the answer
-- to the first try was lost. Without `p_has_work` the run is a guest's: nobody drives it, and it is no news for a driver.
CREATE OR REPLACE FUNCTION placet_append(
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
        final_output = p_final_output, stopped = p_stopped, has_work = coalesce(p_has_work, false), wake_at = p_wake_at,
        unseen = p_epoch IS NULL AND p_has_work IS NOT NULL,
        lease_until = CASE WHEN p_epoch IS NULL AND p_has_work IS NOT NULL AND owner IS NULL THEN 0 ELSE lease_until END,
        news_at = CASE
            WHEN p_status = 'ended' THEN NULL
            WHEN p_epoch IS NULL AND p_has_work IS NOT NULL THEN coalesce(news_at, p_at)
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
