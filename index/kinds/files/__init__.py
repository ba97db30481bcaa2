"""The kind `files` keeps the record of each data file of the source."""
