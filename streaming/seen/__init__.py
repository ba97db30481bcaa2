"""An application is seen from outside: metrics for Prometheus, health, and the states of its tables."""
