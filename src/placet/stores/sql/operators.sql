-- What operators do: standing grants, holds, and the log that tells of them.

-- name: keep_grant
-- A standing grant that is new; one that was revoked stays so.
INSERT INTO placet_grants (id, agent, data) VALUES (:id, :agent, :data) ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: keep_bounded_grant
-- The same for one with terms.
INSERT INTO placet_bounded_grants (id, agent, data) VALUES (:id, :agent, :data)
ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: revoke_grant
-- A standing grant ends.
UPDATE placet_grants SET revoked = true WHERE id = :id AND NOT revoked RETURNING 1;

-- name: revoke_bounded_grant
-- The same for one with terms.
UPDATE placet_bounded_grants SET revoked = true WHERE id = :id AND NOT revoked RETURNING 1;

-- name: standing_grants
-- The grants for one agent.
SELECT data FROM (
    SELECT id, data FROM placet_grants WHERE agent = :agent AND NOT revoked
    UNION ALL SELECT id, data FROM placet_bounded_grants WHERE agent = :agent AND NOT revoked
) AS found ORDER BY id;

-- name: all_grants
-- All grants that stand.
SELECT data FROM (
    SELECT id, data FROM placet_grants WHERE NOT revoked
    UNION ALL SELECT id, data FROM placet_bounded_grants WHERE NOT revoked
) AS found ORDER BY id;

-- name: put_hold
-- An operator holds something back. A second hold on it replaces the first, unless that is somebody else's.
INSERT INTO placet_holds (kind, name, placed_by, placed_at, reason) VALUES (:kind, :name, :by, :at, :reason)
ON CONFLICT (kind, name) DO UPDATE
SET placed_by = excluded.placed_by, placed_at = excluded.placed_at, reason = excluded.reason
WHERE :over_others OR placet_holds.placed_by = excluded.placed_by
    OR (placet_holds.placed_by IS NULL AND excluded.placed_by IS NULL)
RETURNING 1;

-- name: remove_hold
-- It is held back no more, if it is this person's hold (null: anybody's).
DELETE FROM placet_holds
WHERE kind = :kind AND name = :name AND (CAST(:placed_by AS text) IS NULL OR placed_by = CAST(:placed_by AS text))
RETURNING 1;

-- name: wake_held
-- The runs that could do something and do not: a hold may be why. `{filters}` is the run, if the hold was on one.
UPDATE placet_runs SET news_at = placet_now() WHERE has_work AND news_at IS NULL {filters};

-- name: holds
-- What is held back.
SELECT kind, name, placed_by, placed_at, reason FROM placet_holds ORDER BY placed_at, kind, name;

-- name: operators_place
-- Where the operators' log stands. Who asks writes to it next, so the row is locked.
SELECT length, head, key FROM placet_operators FOR UPDATE;

-- name: operators_last
-- The last line of the operators' log.
SELECT text FROM placet_operator_lines ORDER BY position DESC LIMIT 1;

-- name: operators_line
-- One line of the operators' log.
INSERT INTO placet_operator_lines (position, text, checksum) VALUES (:position, :text, :checksum);

-- name: operators_advance
-- Where the operators' log stands after a line.
UPDATE placet_operators SET length = :length, head = :head, key = :key;

-- name: operators_log
-- The operators' log in order, with what is said about its length.
SELECT o.length, o.head, o.key, l.text, l.checksum, l.position
FROM placet_operators o LEFT JOIN placet_operator_lines l ON true
ORDER BY l.position;
