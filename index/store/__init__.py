"""The index table as a whole: its live files, its state in memory, and its commits."""
