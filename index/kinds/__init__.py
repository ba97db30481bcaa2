"""A record kind owns its name and schema, and defines how its rows are written, read, merged and checked."""
