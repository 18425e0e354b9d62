-- An append that gives the lease back: here it is two statements of one transaction, and the tables stay as they are.
-- oldest code: 7

SELECT 1;
