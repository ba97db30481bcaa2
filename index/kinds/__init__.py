"""A record kind owns its name and schema, and says how its rows are written, read, merged and checked."""
