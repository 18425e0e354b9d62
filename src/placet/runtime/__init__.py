"""The only code that orchestrates I/O: the journal, the loop, and what the loop's steps do."""
