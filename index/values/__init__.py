"""A typed constant: how it is written, cast, and in which type Spark compares it."""
