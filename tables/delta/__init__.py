"""Delta tables: the log read as versions, changes and times; deletion vectors, statistics, schema."""
