"""Augmenters: one file each, one line each in `AUGMENTERS`. Short trajectories in, more and longer ones out."""

from __future__ import annotations

from scots.augmenters.base import Augmenter
from scots.augmenters.scots import Scots
from scots.augmenters.synther import Synther
from scots.core.errors import BadInput

AUGMENTERS: dict[str, Augmenter] = {
    "scots": Scots("scots", "official"),
    "scots-paper": Scots("scots-paper", "paper"),
    "synther": Synther(),
}


def augmenter_of(name: str) -> Augmenter:
    """An augmenter by name."""
    if name not in AUGMENTERS:
        raise BadInput(f"augmenter {name!r} is not one of {', '.join(AUGMENTERS)}")
    return AUGMENTERS[name]
