"""State-covering trajectory stitching: short logs in, long and diverse trajectories out, and planners that use them."""

__version__ = "0.1.0"
