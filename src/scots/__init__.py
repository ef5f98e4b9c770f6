"""State-covering trajectory stitching: short logs in, long and diverse trajectories out, and planners that use them."""

__version__ = "0.1.0"

from scots.errors import BadInput as BadInput
from scots.sources import load as load
from scots.trajectories import GoalMix as GoalMix
from scots.trajectories import Meta as Meta
from scots.trajectories import Normalizer as Normalizer
from scots.trajectories import Trajectories as Trajectories
from scots.trajectories import concat as concat
from scots.trajectories import sample_goals as sample_goals
