"""The log of a Delta table is read as snapshots, changes and times, a deletion vector as hidden rows."""
