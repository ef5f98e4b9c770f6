"""Which OpenGL backend MuJoCo draws with. MuJoCo reads `MUJOCO_GL` once, when it is first imported."""

from __future__ import annotations

import ctypes
import os
import sys


def choose_gl_backend() -> str:
    """Choose EGL where there is no display to open a window on; give the name of the backend in force.

    Call it before MuJoCo is imported. A `MUJOCO_GL` set by the user stays. EGL is chosen only if its library loads:
    naming a backend that is not there could break even programs that draw nothing.
    """
    if not os.environ.get("MUJOCO_GL") and is_headless() and _egl_loads():
        os.environ["MUJOCO_GL"] = "egl"
    return os.environ.get("MUJOCO_GL") or ("cgl" if sys.platform == "darwin" else "glfw")


def is_headless() -> bool:
    """Whether this is Linux without a display, as on servers and in containers."""
    return sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _egl_loads() -> bool:
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    return True
