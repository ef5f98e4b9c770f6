"""The page of `scots app` under load: what one person waits for, 50 clients for a minute, 10,000 malformed requests.

    python benchmarks/app.py            # about five minutes: a run on the toy corridor is made first
    python benchmarks/app.py --smoke    # seconds
    python benchmarks/app.py --run PLANNER

The server is the real command in a process of its own. Prints the times that a request takes, the memory of the server
before and after, and the answers to what is malformed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

PROMISED = {"stitch": 300, "plan": 2000}  # milliseconds, 95 % of the requests of one person
DATA = "toy-corridor-stitch-v0"


def scots(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "scots", *words], check=True, stdout=subprocess.DEVNULL)


def make_run(folder: Path) -> Path:
    """A planner of the smoke profile on stitched toy data: small networks that have learned next to nothing."""
    options = ["--profile", "smoke", "--log", "none"]
    scots("augment", DATA, "--out", str(folder / "aug.npz"), "--workers", "1", *options)
    words = ["--data", str(folder / "aug.npz"), "--recorded", DATA, "--out", str(folder / "planner")]
    scots("train", "hd", *words, *options)
    return folder / "planner"


@contextmanager
def server(run: Path) -> Iterator[tuple[str, int, int, Path]]:
    """Host and port of a server of this run, its process, and the file of what it complains about."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "errors"
        with errors.open("w") as file:
            command = [sys.executable, "-m", "scots", "app", str(run), "--port", "0"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
            try:
                assert process.stdout is not None
                lines = (re.search(r"http://(.+):(\d+)/", line) for line in process.stdout)
                found = next((match for match in lines if match), None)
                if found is None:
                    raise SystemExit(f"the server did not start: {errors.read_text()}")
                yield found[1], int(found[2]), process.pid, errors
            finally:
                process.terminate()
                process.wait(timeout=30)


def megabytes(process: int) -> float:
    """Resident memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Client:
    """One connection that is kept open."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = HTTPConnection(host, port, timeout=300)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> int:
        """The status of an answer, which is read to its end."""
        try:
            self._connection.request(method, path, body, headers or {"content-type": "application/json"})
            answer = self._connection.getresponse()
            self.answer = answer.read()
            return answer.status
        except (OSError, HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def round_of(states: list[list[float]], rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """What a person asks one after the other: mostly walks, as sliders are dragged."""
    start, other = rng.sample(states, 2)
    walk = {"start": start, "draw": rng.randrange(5), "novelty_weight": round(rng.uniform(0, 10), 1), "stitches": 40}
    shorter = walk | {"stitches": 20}
    plan = {"start": start, "goal": other}
    return [("stitch", walk), ("distance", {"start": start}), ("stitch", shorter), ("plan", plan)]


def ask_for(address: tuple[str, int], seconds: float, seed: int, times: dict[str, list[float]], bad: list[str]) -> None:
    """Ask round after round, at least one, and note how long each answer took and what was not answered."""
    client, rng = Client(*address), random.Random(seed)
    client.ask("GET", "/api/scene")
    states, end, is_first = json.loads(client.answer)["states"], time.monotonic() + seconds, True
    while is_first or time.monotonic() < end:
        is_first = False
        for kind, question in round_of(states, rng):
            begun = time.monotonic()
            try:
                status = client.ask("POST", f"/api/{kind}", json.dumps(question).encode())
            except (OSError, HTTPException) as error:
                bad.append(f"{kind}: {error!r}")
                continue
            if status != 200:
                bad.append(f"{kind}: {status} {client.answer[:200]!r}")
            times[kind].append(1000 * (time.monotonic() - begun))
    client.close()


def load(address: tuple[str, int], clients: int, seconds: float) -> tuple[dict[str, list[float]], list[str]]:
    times: dict[str, list[float]] = {"stitch": [], "distance": [], "plan": []}
    bad: list[str] = []
    threads = [
        threading.Thread(target=ask_for, args=(address, seconds, number, times, bad)) for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, bad


def described(times: list[float]) -> str:
    return f"{len(times)} in all, median {np.median(times):.0f} ms, p95 {np.quantile(times, 0.95):.0f} ms"


# ------------------------------------------------------------------------------------------------------------ malformed


def junk(rng: random.Random, depth: int = 0) -> Any:
    """Some JSON value, mostly not what is expected."""
    plain = [
        None,
        True,
        -1,
        10**30,
        1e308,
        float("nan"),
        float("-inf"),
        "",
        "x" * 50,
        "\ud800",
        "../../etc/passwd",
        0.5,
    ]
    if depth > 2 or rng.random() < 0.5:
        return rng.choice(plain)
    if rng.random() < 0.5:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = ["start", "goal", "direction", "stitches", "novelty_weight", "candidates", "__proto__", "\x00"]
    return {rng.choice(names): junk(rng, depth + 1) for _ in range(rng.randrange(4))}


def malformed(rng: random.Random) -> tuple[str, str, bytes | None, dict[str, str]]:
    """Method, path, body and headers of a request that nobody should answer."""
    api = f"/api/{rng.choice(['stitch', 'plan', 'distance'])}"
    json_type = {"content-type": "application/json"}
    path = "/" + "/".join(
        rng.choice(["..", "%2e%2e", "etc", "passwd", "%00", "page", "api", "~", "x" * 200]) for _ in range(4)
    )
    wrong = {"start": [1.0, 1.0], rng.choice(["stitches", "start", "goal", "extra"]): junk(rng)} | {"more": 1}
    return rng.choice(
        [
            ("POST", api, json.dumps(wrong).encode(), json_type),
            ("POST", api, json.dumps([junk(rng)]).encode(), json_type),
            ("POST", api, rng.randbytes(rng.randrange(1, 300)), json_type),
            ("POST", api, b"[" * rng.randrange(1, 4000), json_type),
            ("POST", api, b" " * rng.randrange(4097, 20_000), json_type),
            (
                "POST",
                api,
                b'{"start": [1, 1]}',
                {"content-type": rng.choice(["text/plain", "a/b", "multipart/form-data"])},
            ),
            ("GET", path, None, {}),
            ("GET", f"/api/rollout/{rng.choice([-1, 10**40, 'x', '%2e%2e', 999])}", None, {}),
            (rng.choice(["PUT", "DELETE", "PATCH", "TRACE"]), rng.choice(["/", api, "/api/scene"]), None, {}),
            ("GET", "/", None, {"host": rng.choice(["evil.example", "", "127.0.0.1.evil", "localhost@evil"])}),
        ]
    )


def fuzz(address: tuple[str, int], count: int) -> Counter[int]:
    """How often each status was answered."""
    rng, statuses = random.Random(0), Counter[int]()
    for _ in range(count):
        client = Client(*address)  # a body that is not read to its end closes its connection
        statuses[client.ask(*malformed(rng))] += 1
        assert b"root:" not in client.answer
        assert b"Traceback" not in client.answer
        client.close()
    return statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="folder of a planner; by default one is trained for seconds")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    clients, seconds, alone, count = (5, 2.0, 2.0, 300) if options.smoke else (50, 60.0, 20.0, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        if options.run is None:  # what is made for it goes with it
            os.environ["SCOTS_HOME"] = str(Path(folder) / "home")
        run = options.run or make_run(Path(folder))
        with server(run) as (host, port, process, errors):
            address = host, port
            ask_for(address, 1.0, 0, {"stitch": [], "distance": [], "plan": []}, [])  # what is loaded at first use
            times, bad = load(address, 1, alone)
            for kind, most in PROMISED.items():
                print(f"one client, {kind}: {described(times[kind])} (target {most})")
            before = megabytes(process)
            times, more = load(address, clients, seconds)
            for kind, own in times.items():
                print(f"{clients} clients for {seconds:.0f} s, {kind}: {described(own)}")
            failures = [*bad, *more]
            print(f"errors: {len(failures)} (target 0){''.join(f'; {own}' for own in failures[:3])}")
            print(f"memory: {before:.0f} MB before, {megabytes(process):.0f} MB after")
            statuses = fuzz(address, count)
            others = sum(number for status, number in statuses.items() if not 400 <= status < 500)
            print(f"malformed: {count} requests, {dict(sorted(statuses.items()))}, {others} not 4xx (target 0)")
            print(f"memory: {megabytes(process):.0f} MB after that")
            print(f"tracebacks: {errors.read_text().count('Traceback')} (target 0)")


if __name__ == "__main__":
    main()
