"""`python -m scots` is the command line, as torchrun wants it."""

from __future__ import annotations

import sys

from scots.cli import main

if __name__ == "__main__":
    sys.exit(main())
