-- What is indexed, as it stands: for the audit, which compares it with the logs.

-- name: indexed_run
-- What is indexed of a run: the columns that its log gives.
SELECT {run_columns} FROM placet_runs WHERE id = :id AND length > 0;

-- name: indexed_requests
-- What is indexed of a run's requests.
SELECT {request_columns} FROM placet_requests
WHERE run = (SELECT number FROM placet_runs WHERE id = :id) ORDER BY ordinal;

-- name: indexed_grants
-- All grants, revoked or not.
SELECT {grant_columns} FROM (
    SELECT {grant_columns} FROM placet_grants UNION ALL SELECT {grant_columns} FROM placet_bounded_grants
) AS found ORDER BY id;

-- name: strays
-- Runs of which lines or requests are there, and which no list shows.
SELECT coalesce(r.id, '(number ' || found.run || ')')
FROM (SELECT run FROM placet_lines UNION SELECT run FROM placet_requests) AS found
LEFT JOIN placet_runs r ON r.number = found.run
WHERE r.number IS NULL OR r.length = 0
ORDER BY 1;
