"""A comparison with constants becomes sets of a column's own values, or one truth for all rows."""
