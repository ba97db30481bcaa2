"""The demo: a live table is written and indexed at once, the indexer is killed, Spark is the judge."""
