"""Read a Hudi table, COPY_ON_WRITE: its timeline as snapshots, changes and times of completion."""
