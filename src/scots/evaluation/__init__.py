"""From plans and policies to actions, episodes and result rows."""
