"""Commands over all tables of a configuration."""
