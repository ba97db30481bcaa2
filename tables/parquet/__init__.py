"""Data files of a table: footers, leaves, decoded columns, chosen rows."""
