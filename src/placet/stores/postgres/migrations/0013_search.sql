-- What requests are found by: filled from the feed by a desk, and gone with what it is about.
-- oldest code: 7

CREATE TABLE placet_search (
    rowid bigint PRIMARY KEY REFERENCES placet_requests (ordinal) ON DELETE CASCADE,
    words tsvector NOT NULL
);
CREATE INDEX placet_search_by_word ON placet_search USING gin (words);

-- Whatever code takes out what a request said takes its words along.
CREATE FUNCTION placet_forget_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM placet_search WHERE rowid = old.ordinal;
    RETURN NULL;
END $$;
CREATE TRIGGER placet_search_changed AFTER UPDATE OF data ON placet_requests
FOR EACH ROW EXECUTE FUNCTION placet_forget_words();
