"""What keeps a running indexer going for months: leavings are swept, damage is mended, caches are reset."""
