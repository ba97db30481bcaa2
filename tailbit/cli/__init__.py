"""The command line: one command per kind of question, and commands that maintain an index."""
