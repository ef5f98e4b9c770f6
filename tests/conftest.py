"""Settings for the whole test suite."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from scots.envs.rendering import choose_gl_backend

choose_gl_backend()  # before any test imports MuJoCo, which reads the choice once

# The same cases in every run: a failure in one place can be repeated in another.
settings.register_profile(
    "scots", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("scots"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "scots"))  # `make quick` looks at fewer cases
