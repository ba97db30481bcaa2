"""A constant gets its type: it is parsed, cast, and compared in the type that Spark would choose."""
