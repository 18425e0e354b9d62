-- What requests are found by. The index is filled from the feed, and may be empty: no decision rests on it.
-- CROSS JOIN, because SQLite takes its tables in the order in which they are named: the words first, then their rows.

-- name: forget_words
-- A request is about to be indexed anew.
DELETE FROM placet_search WHERE rowid = (SELECT ordinal FROM placet_requests WHERE id = :id);

-- name: keep_words
-- The words of a request, unless it was erased by now: an eraser that is at work is waited for.
INSERT INTO placet_search (rowid, words)
SELECT ordinal, array_to_tsvector(string_to_array(:words, ' ')) FROM placet_requests
WHERE id = :id AND data NOT LIKE :erased FOR SHARE ON CONFLICT (rowid) DO NOTHING;

-- name: found
-- A page of the requests that have all words, oldest first; `{filters}` are the conditions of the query.
SELECT ordinal, data, status, closing, escalated_at, ballot
FROM placet_search CROSS JOIN placet_requests
WHERE ordinal = placet_search.rowid AND placet_search.words @@ CAST(:words AS tsquery)
    AND placet_search.rowid > :after {filters}
ORDER BY placet_search.rowid LIMIT :limit;

-- name: found_newest
-- The same pages, newest first.
SELECT ordinal, data, status, closing, escalated_at, ballot
FROM placet_search CROSS JOIN placet_requests
WHERE ordinal = placet_search.rowid AND placet_search.words @@ CAST(:words AS tsquery)
    AND placet_search.rowid < :after {filters}
ORDER BY placet_search.rowid DESC LIMIT :limit;

-- name: count_found
-- How many have them, counted no further than a limit.
SELECT count(*) FROM (
    SELECT 1 FROM placet_search CROSS JOIN placet_requests
    WHERE ordinal = placet_search.rowid AND placet_search.words @@ CAST(:words AS tsquery) {filters} LIMIT :limit
) AS counted;

-- name: count_requests
-- How many requests there are, counted no further than a limit; `{filters}` are the conditions of the query.
SELECT count(*) FROM (SELECT 1 FROM placet_requests WHERE ordinal > 0 {filters} LIMIT :limit) AS counted;
