"""The configuration of many tables: read, checked as a whole, each error with its file and line. No Spark."""
