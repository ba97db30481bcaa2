"""The metadata table is one Delta table: this room opens it, holds it in memory and commits to it."""
