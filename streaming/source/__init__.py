"""What a query is fed: rows that say what happened in the log, and which of its versions a batch takes."""
