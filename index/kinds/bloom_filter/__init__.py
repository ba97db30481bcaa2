"""The kind `bloom_filter` keeps filters of values for row groups of data files that have none themselves."""
