-- A lease says where the log stands. The tables stay as they are; the dialects count their migrations alike.
-- oldest code: 7
SELECT 1;
