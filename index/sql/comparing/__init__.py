"""Comparisons with constants, as sets of a column's own values or as one truth for all rows."""
