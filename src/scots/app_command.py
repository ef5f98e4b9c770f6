"""The command `scots app`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import Positional, arg

from scots.arguments import OptionalFile, Port, Seed, default_profile
from scots.core.config import Profile
from scots.core.errors import require
from scots.data.choices import Choices


@dataclass(frozen=True)
class App:
    """A page to play with: distances, stitching segment by segment, plans, and episodes, over the map of the data."""

    run_or_data: Positional[Annotated[str, arg(metavar="RUN_OR_DATA")]]
    """Folder of a run (runs/demo), folder of a trained planner, or a dataset: id, file or folder, augmented or not."""
    host: str = "127.0.0.1"
    """Address to serve on. Another than the default lets others reach the page; requests must name this address."""
    port: Port = 8642
    """Port to serve on; 0 takes any that is free."""
    export: Annotated[OptionalFile, arg(metavar="FILE")] = None
    """Write the page as one file that needs no server, with walks and plans that are computed now, and end."""
    prepare: bool = False
    """First train the embedding of recorded data and index its segments, if the cache has none."""
    profile: Profile = field(default_factory=default_profile)
    """Scale of the embedding: seconds, a few minutes on two cores, or the paper's own (a GPU)."""
    columns: Choices = Choices()
    seed: Seed = 0
    """Seed of the embedding."""

    def run(self) -> None:
        """Serve the page until interrupted, or write it."""
        require("fastapi", "app")
        require("uvicorn", "app")
        from scots.app.export import write_page
        from scots.app.server import bind, serve
        from scots.app.session import Options, open_session

        options = Options(self.profile, self.seed, self.prepare, self.columns.given())
        if self.export:
            write_page(open_session(self.run_or_data, options), self.export)
            print(self.export)
            return
        with bind(self.host, self.port) as listener:
            session = open_session(self.run_or_data, options)
            for part, command in session.scene.missing.items():
                print(f"no {part} here yet; first run: {command}", flush=True)
            print(f"http://{self.host}:{listener.getsockname()[1]}/  (Ctrl+C ends it)", flush=True)
            serve(session, listener, self.host)
