"""The kind `files` keeps what the index has done with each data file of the source."""
