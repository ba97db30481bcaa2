"""Read a Hudi table of either type: its timeline as snapshots, changes and times of completion."""
