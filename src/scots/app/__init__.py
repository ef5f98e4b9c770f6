"""The page to play with: `scots app`. A session holds what a run has, a server answers, plain scripts draw."""
