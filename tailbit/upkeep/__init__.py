"""An index is maintained: verified, repaired, merged, altered and vacuumed; its state is reported."""
