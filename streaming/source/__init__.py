"""The input of a query: ranges of the log, each planned as the versions that one batch reads."""
