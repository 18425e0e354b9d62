-- Requests that several people have to approve.
-- oldest code: 7

ALTER TABLE placet_requests ADD COLUMN ballot TEXT;  -- JSON: what it needs before it is decided, and the votes
