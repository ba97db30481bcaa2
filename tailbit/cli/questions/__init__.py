"""The commands that ask: each hands its arguments to an answer, and prints what it says."""
