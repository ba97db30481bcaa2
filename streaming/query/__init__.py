"""A query is prepared, started, and watched until it ends; transient failures restart it."""
