"""A constant gets its type: it is read, cast, and compared in the type that Spark would choose."""
