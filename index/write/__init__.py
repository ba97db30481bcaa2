"""What changed in the source becomes postings, counts and records, task by task."""
