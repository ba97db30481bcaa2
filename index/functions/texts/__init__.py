"""Functions of texts: patterns, what is done for all texts at once, what once for each distinct text."""
