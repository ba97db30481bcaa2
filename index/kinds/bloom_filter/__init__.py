"""The kind `bloom_filter` keeps Bloom filters of values for row groups whose data files have none."""
