"""Lookups of record keys decode only those small pages of a segment that may hold a wanted key."""
