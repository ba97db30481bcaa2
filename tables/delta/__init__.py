"""Read a Delta log as snapshots, changes and commit times; read deletion vectors as hidden rows."""
