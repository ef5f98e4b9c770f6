"""Goal-conditioned agents: one file each, one line each in `AGENTS`, all read in the same order.

A diff of two of the files is the difference between two papers: the config, how a batch is drawn, the losses with
those of actors last, their sum, what the training loop asks for and, where it is not the mean of one actor, how to act.
"""

from __future__ import annotations

from scots.agents.base import Agent
from scots.agents.crl import CRL
from scots.agents.gcbc import GCBC
from scots.agents.gciql import GCIQL
from scots.agents.gcivl import GCIVL
from scots.agents.hiql import HIQL
from scots.agents.qrl import QRL

AGENTS: dict[str, type[Agent]] = {agent.name: agent for agent in (GCIQL, CRL, HIQL, QRL, GCIVL, GCBC)}
