"""Changes of the source become postings, counts and records, task by task."""
