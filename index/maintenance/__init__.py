"""An index is created, altered, merged, vacuumed, verified and repaired."""
