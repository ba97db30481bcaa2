"""Column chunks as they are mostly stored: a dictionary of values, and codes of it."""
