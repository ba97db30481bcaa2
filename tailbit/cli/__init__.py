"""The command line has one command a question, and commands that keep an index."""
