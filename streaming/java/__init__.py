"""The Java process that Spark runs in: its environment, its settings, and what it prints."""
