"""Rows of a Delta table are changed where the index says that they lie, in transactions of Delta's own."""
