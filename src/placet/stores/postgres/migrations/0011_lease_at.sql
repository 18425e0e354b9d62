-- A lease that says where the log stands, so that a driver that has just read it need not read it again.
-- oldest code: 7

-- As placet_lease, which older code still calls. `stands_at` and `its_head` are read under the row's lock: the driver
-- before this one may have appended after its successor had read the log.
CREATE FUNCTION placet_lease_at(
    p_run text, p_owner text, p_gone bigint, p_ttl double precision,
    OUT new_epoch bigint, OUT holder text, OUT stands_at integer, OUT its_head bytea
) LANGUAGE plpgsql AS $$
DECLARE
    r placet_runs := placet_locked_run(p_run);
    now double precision := placet_now();
BEGIN
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
    new_epoch := nextval('placet_epochs');
    UPDATE placet_runs SET
        epoch = new_epoch, owner = p_owner, lease_until = now + p_ttl,
        takeovers = takeovers + CASE WHEN r.owner IS NOT NULL AND r.length > 0 THEN 1 ELSE 0 END,
        news_at = CASE WHEN status = 'ended' THEN NULL ELSE coalesce(news_at, now) END
    WHERE number = r.number;
END $$;
