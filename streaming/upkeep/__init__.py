"""A running indexer lasts for months: old files are deleted, damage is repaired, failures are retried."""
