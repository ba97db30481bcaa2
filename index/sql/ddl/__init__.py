"""The text of an index statement, as Hudi and Hive write them, becomes a value that an engine carries out."""
