-- The records: small things that a desk keeps beside the runs.

-- name: record
-- One record, unless it has expired.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > placet_now());

-- name: records
-- Records of one kind in the order of their ids; `{filters}` is the owner, if one is meant.
SELECT kind, id, owner, data, expires_at FROM placet_records
WHERE kind = :kind AND id > :after AND (expires_at IS NULL OR expires_at > placet_now()) {filters}
ORDER BY id LIMIT :limit;

-- name: add_record
-- A new record; an expired one makes room.
INSERT INTO placet_records (kind, id, owner, data, expires_at) VALUES (:kind, :id, :owner, :data, :expires_at)
ON CONFLICT (kind, id) DO UPDATE SET owner = excluded.owner, data = excluded.data, expires_at = excluded.expires_at
WHERE placet_records.expires_at <= placet_now()
RETURNING 1;

-- name: replace_record
-- Other data under the same id, if the record is still there and is what it was.
UPDATE placet_records SET owner = :owner, data = :data, expires_at = :expires_at
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > placet_now())
    AND (CAST(:was AS text) IS NULL OR data = CAST(:was AS text))
RETURNING 1;

-- name: take_record
-- A record goes to the one who takes it.
DELETE FROM placet_records
WHERE kind = :kind AND id = :id AND (expires_at IS NULL OR expires_at > placet_now())
RETURNING kind, id, owner, data, expires_at;

-- name: remove_records
-- All records of one kind that belong to an owner.
DELETE FROM placet_records WHERE kind = :kind AND owner = :owner RETURNING 1;

-- name: expire_records
-- Some of those whose time is over.
DELETE FROM placet_records WHERE (kind, id) IN (
    SELECT kind, id FROM placet_records WHERE expires_at <= placet_now() LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING 1;

-- name: forget_samples
-- What statistics took from a run: it goes with the run.
DELETE FROM placet_records WHERE kind = 'sample' AND owner = :id;
