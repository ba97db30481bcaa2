"""Open data files whose footer is consistent, and decode columns to the table's current types."""
