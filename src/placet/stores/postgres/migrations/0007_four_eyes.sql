-- Four eyes are demanded by the store, and links are bound to the user as they are when the link is made.
-- oldest code: 7

-- Older code would drive runs without the rule, and follow links that were to be void: it is refused.
-- Answers that were kept to be repeated may hold tokens and links as text, and older links are bound to nothing.
DELETE FROM placet_records WHERE kind IN ('answer', 'invitation');
