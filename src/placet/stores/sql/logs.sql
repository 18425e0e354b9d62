-- The logs of runs, their cached folds, and the feed of all that was appended.

-- name: load
-- A run's log in order from a line on, with what its row says about its length.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position
FROM placet_runs r LEFT JOIN placet_lines l ON l.run = r.number AND l.position >= :start
WHERE r.id = :id AND r.length > 0
ORDER BY l.position;

-- name: cached_at
-- After how many lines the fold of a run was last cached by code of a version.
SELECT f.position FROM placet_folds f JOIN placet_runs r ON r.number = f.run WHERE r.id = :id AND f.version = :version;

-- name: load_recent
-- A run's log from its cached fold on, or whole where code of this version has cached none. One statement, because
-- every drive begins with it; the fold is large, so it stands in the first row alone.
SELECT r.length, r.head, r.key, l.text, l.checksum, l.position, r.takeovers, f.position, f.size, f.version, f.checksum,
       CASE WHEN l.position IS NULL OR l.position = f.position THEN f.data END
FROM placet_runs r
LEFT JOIN placet_folds f ON f.run = r.number AND f.version = :version
LEFT JOIN placet_lines l ON l.run = r.number AND l.position >= coalesce(f.position, 0)
WHERE r.id = :id AND r.length > 0
ORDER BY l.position;

-- name: cache_fold
-- A fold takes the place of an earlier one.
INSERT INTO placet_folds (run, position, size, version, checksum, data)
SELECT number, :position, :size, :version, :checksum, :data FROM placet_runs WHERE id = :id
ON CONFLICT (run) DO UPDATE SET position = excluded.position, size = excluded.size, version = excluded.version,
    checksum = excluded.checksum, data = excluded.data;

-- name: drop_fold
-- A run's cached fold.
DELETE FROM placet_folds WHERE run = (SELECT number FROM placet_runs WHERE id = :id);

-- name: feed
-- What was appended after a place in the feed, in order, as far as it is settled.
SELECT l.sequence, r.id, l.position, l.text
FROM placet_lines l JOIN placet_runs r ON r.number = l.run
WHERE l.sequence > :after AND l.sequence < placet_settled()
ORDER BY l.sequence LIMIT :limit;

-- name: last_sequence
-- Where the feed ends, as far as it is settled: a reader that continues from here misses nothing.
SELECT coalesce(max(sequence), 0) FROM placet_lines WHERE sequence < placet_settled();

-- name: news
-- Whether the feed goes on after a place: settled already, or about to be.
SELECT EXISTS (SELECT 1 FROM placet_lines WHERE sequence > :after AND sequence < placet_settled()),
       EXISTS (SELECT 1 FROM placet_lines WHERE sequence > :after);
