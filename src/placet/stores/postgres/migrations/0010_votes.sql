-- Requests that several people have to approve.
-- oldest code: 7

-- JSON: what it needs before it is decided, and the votes.
ALTER TABLE placet_requests ADD COLUMN ballot text;

-- One more kind of change, `count`. What older code sends means what it meant, so the function keeps its name.
CREATE OR REPLACE FUNCTION placet_change_requests(p_run bigint, p_changes json) RETURNS void LANGUAGE plpgsql AS $$
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
        ELSIF change->>'op' = 'escalate' THEN
            UPDATE placet_requests SET escalated_at = (change->>'at')::double precision
            WHERE run = p_run AND call = change->>'call' AND status = 'pending';
            CONTINUE;
        ELSIF change->>'op' = 'count' THEN
            UPDATE placet_requests
            SET ballot = CASE WHEN number = (change->>'number')::integer THEN change->>'ballot' END
            WHERE run = p_run AND call = change->>'call';
            CONTINUE;
        END IF;
        UPDATE placet_requests SET status = change->>'status', closing = change->>'closing'
        WHERE run = p_run AND call = change->>'call' AND status = 'pending';
        IF change->>'op' = 'open' THEN
            INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
            VALUES (change->>'id', p_run, change->>'call', (change->>'number')::integer, 'pending',
                    change->>'agent', change->>'tool', change->>'data')
            ON CONFLICT (id) DO UPDATE
            SET status = 'pending', data = excluded.data, closing = NULL, escalated_at = NULL, ballot = NULL;
        END IF;
    END LOOP;
END $$;
