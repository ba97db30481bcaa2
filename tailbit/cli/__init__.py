"""The command line: one command a question, and those that keep an index."""
