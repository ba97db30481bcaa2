"""Read the log files of a MERGE_ON_READ table: their blocks, the rows in them, and which rows are hidden."""
