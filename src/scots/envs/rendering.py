"""The OpenGL backend of MuJoCo, chosen by `MUJOCO_GL`. MuJoCo reads it once, when it is first imported."""

from __future__ import annotations

import ctypes
import os
import sys


def choose_gl_backend() -> str:
    """Choose EGL if there is no display; return the name of the backend in use.

    Call this before MuJoCo is imported. A `MUJOCO_GL` set by the user is kept. EGL is chosen only if its library loads:
    a missing backend can break even programs that render nothing.
    """
    if not os.environ.get("MUJOCO_GL") and is_headless() and _egl_loads():
        os.environ["MUJOCO_GL"] = "egl"
    return os.environ.get("MUJOCO_GL") or ("cgl" if sys.platform == "darwin" else "glfw")


def is_headless() -> bool:
    """Whether this is Linux without a display, such as a server or a container."""
    return sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _egl_loads() -> bool:
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    return True
