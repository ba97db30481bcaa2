"""The record kinds of the index table: the rows of each, and how they are written, read and merged."""
