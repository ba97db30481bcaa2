"""The metadata table is a Delta table; this package opens it, holds it in memory and commits to it."""
