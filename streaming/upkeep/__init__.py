"""A running indexer is kept going for months: leavings are swept, damage is mended, caches are reset."""
