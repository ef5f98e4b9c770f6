"""Augmenters: short trajectories in, more and longer ones out."""
