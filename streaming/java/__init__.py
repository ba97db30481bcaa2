"""The Java process that Spark runs in is configured and started, and its output is filtered."""
