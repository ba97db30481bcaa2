"""Delta tables: log, snapshot, protocol gate, deletion vectors, schema and column mapping, time travel."""
