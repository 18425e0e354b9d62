-- Sessions of guests, which nobody drives. The rows of runs stay as they are; the dialects count their migrations alike.
-- oldest code: 7
SELECT 1;
