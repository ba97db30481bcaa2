"""The Java process that Spark runs in is set up and started, and what it prints is sorted."""
