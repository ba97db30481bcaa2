"""The demo writes and indexes a live table at once, kills the indexer, and lets Spark judge the answers."""
