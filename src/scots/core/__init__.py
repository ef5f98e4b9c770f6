"""Errors, configs and seeds, files, the console: what everything stands on. Knows nothing of trajectories."""
