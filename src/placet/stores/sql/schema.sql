-- How far the schema is. The dialects' own files create and fill the table.

-- name: applied
-- How far the schema is, and which code it needs at least.
SELECT coalesce(max(number), 0), coalesce(max(oldest_code), 0) FROM placet_schema;
