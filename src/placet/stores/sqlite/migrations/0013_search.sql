-- What requests are found by: filled from the feed by a desk, and gone with what it is about.
-- oldest code: 7

CREATE VIRTUAL TABLE placet_search USING fts5(words, detail = none, columnsize = 0, tokenize = 'unicode61 remove_diacritics 0');

-- Whatever code takes a request away, or takes out what it said, takes its words along.
CREATE TRIGGER placet_search_deleted AFTER DELETE ON placet_requests BEGIN
    DELETE FROM placet_search WHERE rowid = old.ordinal;
END;
CREATE TRIGGER placet_search_changed AFTER UPDATE OF data ON placet_requests BEGIN
    DELETE FROM placet_search WHERE rowid = old.ordinal;
END;
-- A word that was deleted stays in the index until its parts are merged: what is erased must not.
CREATE TRIGGER placet_search_erased AFTER UPDATE OF erased_at ON placet_runs WHEN new.erased_at IS NOT NULL BEGIN
    INSERT INTO placet_search (placet_search) VALUES ('optimize');
END;
