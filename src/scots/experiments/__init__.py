"""Recipes, the stages that carry them out, and the paper's tables."""
