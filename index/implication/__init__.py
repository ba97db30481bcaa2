"""Implications between conditions on columns and conditions on a function of these columns, both ways."""
