"""Where data comes from: ids with their published settings, loading, collecting, downloading."""

from __future__ import annotations

from scots.datasets.loading import data_path as data_path
from scots.datasets.loading import load as load
