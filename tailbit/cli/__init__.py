"""The command line: one command per kind of question, and commands that maintain an index."""

PROBLEM, WRONG_USE, AGAIN, CONFIGURATION, INTERRUPTED = 1, 2, 75, 78, 130
"""Exit statuses other than 0. `AGAIN` and `CONFIGURATION` are EX_TEMPFAIL and EX_CONFIG of sysexits.h: a
supervisor starts `run` again after the first; after the second a person must do something.
"""
