-- Questions that went to others.
-- oldest code: 1

ALTER TABLE placet_requests ADD COLUMN escalated_at REAL;  -- nobody answered in time: from then on it has no deadline
