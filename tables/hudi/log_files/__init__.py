"""Read the log files of a MERGE_ON_READ table: their blocks, the rows in them, and which rows are hidden.

Whatever reads a log file raises FileNotFoundError if the file is gone; LogBlockError if it begins with no
block, or if a block of a completed instant is torn, damaged, or lacks a schema or a key; DataFileError if a
base file cannot be read or has no key column; and UnsupportedFeatureError if a block is of a kind that is not
read, or if its rows are ordered, deleted or merged in a way that is not proven equal to Hudi's.
"""
