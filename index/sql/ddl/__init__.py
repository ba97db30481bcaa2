"""Index statements of Hudi and Hive, parsed from text into values that an engine carries out."""
