"""An index is looked after: it is verified, repaired, merged, altered and vacuumed, and its state is told."""
