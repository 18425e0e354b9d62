-- The requests: what people are asked.

-- name: request
-- One request.
SELECT data, status, closing, escalated_at, ballot FROM placet_requests WHERE id = :id;

-- name: requests
-- A page of requests, oldest first; `{filters}` are the conditions of the query.
SELECT ordinal, data, status, closing, escalated_at, ballot FROM placet_requests
WHERE ordinal > :after {filters}
ORDER BY ordinal LIMIT :limit;

-- name: requests_newest
-- The same pages, newest first.
SELECT ordinal, data, status, closing, escalated_at, ballot FROM placet_requests
WHERE ordinal < :after {filters}
ORDER BY ordinal DESC LIMIT :limit;
