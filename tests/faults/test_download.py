"""Downloads from a local HTTP server that misbehaves in many ways."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scots.datasets.download as downloading
from scots.core.errors import BadInput
from scots.datasets.download import download, origin_of

TRAINING, VALIDATION = "toy-v0.npz", "toy-v0-val.npz"


def dataset(rows: int, seed: int = 0, **changes: Any) -> bytes:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {
        "observations": rng.normal(size=(rows, 4)).astype(np.float32),
        "actions": rng.normal(size=(rows, 2)).astype(np.float32),
        "terminals": np.zeros(rows, dtype=bool),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return buffer.getvalue()


CONTENT = {TRAINING: dataset(20_000), VALIDATION: dataset(2_000, seed=1)}
HALF = len(CONTENT[TRAINING]) // 2


@dataclass
class Fault:
    """How one response differs from a correct one."""

    status: int | None = None
    body: bytes | None = None
    content_type: str = "application/octet-stream"
    announce: int = 0  # added to the size in the headers
    cut_after: int | None = None  # bytes of this response, after which the connection closes
    wait: threading.Event | None = None  # stalls at `cut_after` until the event, then continues
    shift: int = 0  # the response starts this many bytes after the requested one
    ignore_range: bool = False
    ignore_if_range: bool = False
    headers: dict[str, str | None] = field(default_factory=dict)  # replaced, or omitted if None


@dataclass
class Request:
    name: str
    range: str | None
    if_range: str | None
    sent: int = 0


class Mirror(ThreadingHTTPServer):
    """Serves `content` correctly, except for the faults queued or always set for a name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = dict(CONTENT)
        self.faults: dict[str, list[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ogbench"

    def fault(self, name: str) -> Fault:
        queue = self.faults.get(name)
        return queue.pop(0) if queue else self.always.get(name, Fault())

    def requests_for(self, name: str = TRAINING) -> list[Request]:
        return [request for request in self.requests if request.name == name]


class Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        request = Request(name, self.headers["Range"], self.headers["If-Range"])
        self.server.requests.append(request)
        fault = self.server.fault(name)
        body = self.server.content.get(name) if fault.body is None else fault.body
        if body is None or (fault.status or 200) >= 400:
            return self.send_error(fault.status or 404)
        self.send_body(body, fault, request)

    def send_body(self, body: bytes, fault: Fault, request: Request) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        unchanged = fault.ignore_if_range or request.if_range in (None, etag)
        partial = request.range is not None and unchanged and not fault.ignore_range
        first = int(request.range.removeprefix("bytes=").rstrip("-")) if partial and request.range else 0
        if partial and first >= len(body):
            return self.send_error(416)
        first += fault.shift
        headers: dict[str, str | None] = {
            "Content-Length": str(len(body) - first + fault.announce),
            "Content-Type": fault.content_type,
            "ETag": etag,
        }
        if partial:
            total = len(body) + fault.announce
            headers["Content-Range"] = f"bytes {first}-{total - 1}/{total}"
        self.send_response(206 if partial else 200)
        for key, value in (headers | fault.headers).items():
            if value is not None:
                self.send_header(key, value)
        self.end_headers()
        payload = body[first:]
        stop = len(payload) if fault.cut_after is None else fault.cut_after
        self.push(payload[:stop], request)
        if fault.wait is not None and fault.wait.wait(timeout=20):
            self.push(payload[stop:], request)

    def push(self, payload: bytes, request: Request) -> None:
        try:
            self.wfile.write(payload)
            self.wfile.flush()
            request.sent += len(payload)
        except OSError:  # the client was killed
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirrors() -> Iterator[Callable[[], Mirror]]:
    started: list[Mirror] = []

    def start() -> Mirror:
        mirror = Mirror()
        threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(mirror)
        return mirror

    yield start
    for mirror in started:
        mirror.shutdown()
        mirror.server_close()


@pytest.fixture
def mirror(mirrors: Callable[[], Mirror], home: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    mirror = mirrors()
    monkeypatch.setenv("SCOTS_MIRRORS", mirror.url)
    return mirror


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloading, "_RETRY_SECONDS", (0.0, 0.0, 0.0))
    return tmp_path / "data"


def assert_complete(home: Path, content: dict[str, bytes] = CONTENT) -> None:
    for name, body in content.items():
        assert (home / name).read_bytes() == body
    expected = {*content, *(name.replace(".npz", ".origin.json") for name in content), "checksums.json"}
    assert {path.name for path in home.iterdir()} == expected


def assert_no_final_file(home: Path) -> None:
    assert not (home / TRAINING).exists()
    assert not (home / TRAINING).with_suffix(".origin.json").exists()


# ------------------------------------------------------------------------------------------------------------ success


def test_downloads_both_files_and_records_their_origin(mirror: Mirror, home: Path) -> None:
    assert download("toy-v0") == home / TRAINING
    assert_complete(home)
    for name, body in CONTENT.items():
        origin = origin_of(home / name)
        assert origin is not None
        assert origin.pop("date").endswith("+00:00")
        digest = hashlib.sha256(body).hexdigest()
        assert origin == {
            "origin": "downloaded",
            "url": f"{mirror.url}/{name}",
            "sha256": digest,
            "bytes": len(body),
        }
        assert json.loads((home / "checksums.json").read_text())[name] == digest


def test_existing_file_is_not_downloaded_again(mirror: Mirror, home: Path) -> None:
    download("toy-v0")
    (home / VALIDATION).unlink()
    download("toy-v0")
    assert len(mirror.requests_for(TRAINING)) == 1
    assert len(mirror.requests_for(VALIDATION)) == 2


def test_file_without_a_record_has_no_origin(tmp_path: Path) -> None:
    assert origin_of(tmp_path / "own.npz") is None


def test_server_without_a_content_length_is_accepted(mirror: Mirror, home: Path) -> None:
    mirror.always[TRAINING] = Fault(headers={"Content-Length": None, "Connection": "close"})
    download("toy-v0")
    assert_complete(home)


# ------------------------------------------------------------------------------------------------------------- resume


def test_lost_connection_resumes_where_it_stopped(mirror: Mirror, home: Path) -> None:
    mirror.faults[TRAINING] = [Fault(cut_after=HALF)]
    download("toy-v0")
    assert_complete(home)
    first, second = mirror.requests_for()
    assert (first.range, second.range) == (None, f"bytes={HALF}-")
    assert first.sent + second.sent == len(CONTENT[TRAINING])


def test_any_number_of_interruptions_is_survived_while_bytes_arrive(mirror: Mirror, home: Path) -> None:
    step = len(CONTENT[TRAINING]) // 10
    mirror.faults[TRAINING] = [Fault(cut_after=step) for _ in range(9)]
    download("toy-v0")
    assert_complete(home)
    assert sum(request.sent for request in mirror.requests_for()) == len(CONTENT[TRAINING])


def test_stalled_server_counts_as_interrupted(mirror: Mirror, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "_TIMEOUT_SECONDS", 0.2)
    stall = threading.Event()
    mirror.faults[TRAINING] = [Fault(cut_after=HALF, wait=stall)]
    download("toy-v0")
    stall.set()
    assert_complete(home)
    assert mirror.requests_for()[1].range == f"bytes={HALF}-"


def test_busy_server_keeps_the_part(mirror: Mirror, home: Path) -> None:
    mirror.faults[TRAINING] = [Fault(cut_after=HALF), Fault(status=503), Fault(status=429)]
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for()[-1].range == f"bytes={HALF}-"


def test_server_that_ignores_range_restarts_the_download(mirror: Mirror, home: Path) -> None:
    mirror.faults[TRAINING] = [Fault(cut_after=HALF), Fault(ignore_range=True)]
    download("toy-v0")
    assert_complete(home)


def test_server_that_ignores_range_and_never_finishes_is_abandoned(mirror: Mirror, home: Path) -> None:
    mirror.always[TRAINING] = Fault(cut_after=HALF, ignore_range=True)
    with pytest.raises(BadInput, match=f"lost at {HALF} of"):
        download("toy-v0")
    assert len(mirror.requests_for()) == 1 + len(downloading._RETRY_SECONDS)
    assert_no_final_file(home)


@pytest.mark.parametrize("ignore_if_range", [False, True])
def test_file_that_changed_between_attempts_restarts(mirror: Mirror, home: Path, ignore_if_range: bool) -> None:
    mirror.always[TRAINING] = Fault(cut_after=HALF, ignore_range=True)
    with pytest.raises(BadInput):
        download("toy-v0")
    mirror.content[TRAINING] = dataset(20_000, seed=7)  # the same size: only the validator differs
    mirror.always[TRAINING] = Fault(ignore_if_range=ignore_if_range)
    download("toy-v0")
    assert_complete(home, mirror.content)


def test_without_a_validator_the_download_restarts(mirror: Mirror, home: Path) -> None:
    mirror.faults[TRAINING] = [Fault(cut_after=HALF, headers={"ETag": None})]
    download("toy-v0")
    assert_complete(home)
    assert [request.range for request in mirror.requests_for()] == [None, None]


def test_last_modified_is_the_validator_if_the_etag_is_weak(mirror: Mirror, home: Path) -> None:
    date = "Tue, 01 Oct 2024 00:00:00 GMT"
    weak: dict[str, str | None] = {"ETag": 'W/"1"', "Last-Modified": date}
    mirror.faults[TRAINING] = [Fault(cut_after=HALF, headers=weak), Fault(headers=weak, ignore_if_range=True)]
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for()[1].if_range == date


@pytest.mark.parametrize("shift", [-1, 1])
def test_wrong_range_is_not_appended(mirror: Mirror, home: Path, shift: int) -> None:
    mirror.faults[TRAINING] = [Fault(cut_after=HALF), Fault(shift=shift)]
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for()[-1].range is None


def test_more_bytes_than_announced_are_discarded(mirror: Mirror, home: Path) -> None:
    size = len(CONTENT[TRAINING])
    too_long = Fault(shift=-100, headers={"Content-Range": f"bytes {HALF}-{size - 1}/{size}"})
    mirror.faults[TRAINING] = [Fault(cut_after=HALF), too_long]
    with pytest.raises(BadInput, match=f"more than the {size} bytes"):
        download("toy-v0")
    assert not (home / f"{TRAINING}.part").exists()
    assert_no_final_file(home)


def test_web_page_does_not_replace_the_part(mirror: Mirror, home: Path) -> None:
    page = Fault(body=b"<html>please log in</html>", content_type="text/html", ignore_range=True)
    mirror.faults[TRAINING] = [Fault(cut_after=HALF), page]
    with pytest.raises(BadInput, match="web page"):
        download("toy-v0")
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for()[-1].range == f"bytes={HALF}-"


def test_complete_part_is_verified_without_a_request(mirror: Mirror, home: Path) -> None:
    body = CONTENT[TRAINING]
    home.mkdir()
    (home / f"{TRAINING}.part").write_bytes(body)
    record = {"url": f"{mirror.url}/{TRAINING}", "validator": '"1"', "bytes": len(body)}
    (home / f"{TRAINING}.part.json").write_text(json.dumps(record))
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for() == []


def test_part_without_a_record_is_replaced(mirror: Mirror, home: Path) -> None:
    home.mkdir()
    (home / f"{TRAINING}.part").write_bytes(b"bytes of unknown origin")
    download("toy-v0")
    assert_complete(home)


# ------------------------------------------------------------------------------------------------------ bad responses

NOT_A_DATASET: dict[str, tuple[Fault, str]] = {
    "missing": (Fault(status=404), "404"),
    "forbidden": (Fault(status=403), "403"),
    "broken server": (Fault(status=500), "500"),
    "web page": (Fault(body=b"<html>moved</html>", content_type="text/html; charset=utf-8"), "web page"),
    "garbage": (Fault(body=b"<html>moved</html>" * 100), "not a dataset"),
    "empty": (Fault(body=b""), "not a dataset"),
    "announces less": (Fault(announce=-1000), "not a dataset"),
    "announces more": (Fault(announce=1000), "fewer bytes than it announced"),
    "announces more, no range": (Fault(announce=1000, ignore_range=True), "lost at"),
    "no actions": (Fault(body=dataset(50, actions=None)), "without the array 'actions'"),
    "unequal": (Fault(body=dataset(50, actions=np.zeros((49, 2)))), "different lengths"),
    "scalar": (Fault(body=dataset(50, actions=np.zeros(()))), "not an array of numbers"),
}


@pytest.mark.parametrize(("fault", "reason"), NOT_A_DATASET.values(), ids=NOT_A_DATASET.keys())
def test_bad_response_leaves_no_file(mirror: Mirror, home: Path, fault: Fault, reason: str) -> None:
    mirror.always[TRAINING] = fault
    with pytest.raises(BadInput, match=reason) as caught:
        download("toy-v0")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("toy-v0: ")
    assert mirror.url in message
    assert "scots data collect toy-v0" in message
    assert_no_final_file(home)


@pytest.mark.parametrize(("fault", "reason"), NOT_A_DATASET.values(), ids=NOT_A_DATASET.keys())
def test_bad_response_moves_on_to_the_next_mirror(
    mirrors: Callable[[], Mirror], home: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str
) -> None:
    bad, good = mirrors(), mirrors()
    bad.always[TRAINING] = fault
    monkeypatch.setenv("SCOTS_MIRRORS", f"{bad.url}, {good.url}/")
    download("toy-v0")
    assert_complete(home)
    origin = origin_of(home / TRAINING)
    assert origin is not None
    assert origin["url"] == f"{good.url}/{TRAINING}"


def test_damage_inside_the_file_is_detected(mirror: Mirror, home: Path) -> None:
    body = bytearray(CONTENT[TRAINING])
    body[HALF] ^= 1
    mirror.always[TRAINING] = Fault(body=bytes(body))
    with pytest.raises(BadInput, match="fails its checksum"):
        download("toy-v0")
    assert not (home / f"{TRAINING}.part").exists()


def test_encrypted_archive_is_not_a_dataset(mirror: Mirror, home: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in downloading._REQUIRED_ARRAYS:
            archive.writestr(f"{name}.npy", b"x")
    encrypted = buffer.getvalue().replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    mirror.always[TRAINING] = Fault(body=encrypted)
    with pytest.raises(BadInput, match="not a dataset"):
        download("toy-v0")


def test_mirror_that_is_down_is_skipped(
    mirrors: Callable[[], Mirror], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down, good = Mirror(), mirrors()
    down.server_close()
    monkeypatch.setenv("SCOTS_MIRRORS", f"{down.url},{good.url}")
    download("toy-v0")
    assert_complete(home)


def test_error_lists_the_reason_of_every_mirror(
    mirrors: Callable[[], Mirror], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down, empty = Mirror(), mirrors()
    down.server_close()
    empty.content = {}
    monkeypatch.setenv("SCOTS_MIRRORS", f"{down.url},{empty.url}")
    with pytest.raises(BadInput) as caught:
        download("toy-v0")
    assert f"{down.url}/{TRAINING}: cannot be reached" in str(caught.value)
    assert f"{empty.url}/{TRAINING}: answered 404" in str(caught.value)


def test_part_is_resumed_from_the_mirror_it_came_from(
    mirrors: Callable[[], Mirror], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = mirrors(), mirrors()
    first.always[TRAINING] = Fault(status=404)
    second.faults[TRAINING] = [Fault(cut_after=HALF), *[Fault(status=503)] * 3]
    monkeypatch.setenv("SCOTS_MIRRORS", f"{first.url},{second.url}")
    with pytest.raises(BadInput, match="503"):
        download("toy-v0")
    first.always.clear()
    download("toy-v0")
    assert_complete(home)
    assert len(first.requests_for()) == 1
    assert second.requests_for()[-1].range == f"bytes={HALF}-"


# ----------------------------------------------------------------------------------------------------------- checksums


def test_checksum_that_differs_from_the_recorded_one_is_refused(mirror: Mirror, home: Path) -> None:
    download("toy-v0")
    (home / TRAINING).unlink()
    (home / TRAINING).with_suffix(".origin.json").unlink()
    mirror.content[TRAINING] = dataset(20_000, seed=7)
    checksums = home / "checksums.json"
    with pytest.raises(BadInput, match=f"was recorded before; to accept a new version delete '{TRAINING}'") as caught:
        download("toy-v0")
    assert str(checksums) in str(caught.value)
    assert not (home / f"{TRAINING}.part").exists()
    assert_no_final_file(home)

    recorded = json.loads(checksums.read_text())
    del recorded[TRAINING]
    checksums.write_text(json.dumps(recorded))
    download("toy-v0")
    assert_complete(home, mirror.content)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_error_names_an_unreadable_checksum_file(mirror: Mirror, home: Path, text: str) -> None:
    home.mkdir()
    (home / "checksums.json").write_text(text)
    with pytest.raises(BadInput, match=r"checksums\.json.*delete it"):
        download("toy-v0")


# -------------------------------------------------------------------------------------------------------- local errors


def test_offline_returns_an_existing_file_without_a_request(mirror: Mirror, home: Path) -> None:
    home.mkdir()
    (home / TRAINING).write_bytes(CONTENT[TRAINING])
    assert download("toy-v0", offline=True) == home / TRAINING
    assert mirror.requests == []


def test_offline_without_the_file_says_what_to_do(mirror: Mirror, home: Path) -> None:
    with pytest.raises(BadInput, match=r"run once without --offline.*scots data collect toy-v0"):
        download("toy-v0", offline=True)
    assert mirror.requests == []


@pytest.mark.parametrize("dataset_id", ["../toy-v0", "", "toy v0", "/etc/passwd"])
def test_dataset_id_cannot_escape_the_folder(home: Path, dataset_id: str) -> None:
    with pytest.raises(BadInput, match="not a dataset id"):
        download(dataset_id)


def test_mirror_must_be_a_url(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_MIRRORS", "ftp://example.org")
    with pytest.raises(BadInput, match="SCOTS_MIRRORS"):
        download("toy-v0")


def test_too_little_disk_space_is_detected_before_the_transfer(
    mirror: Mirror, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BadInput, match=r"needed, 1\.0 kB free"):
        download("toy-v0")
    assert_no_final_file(home)


@pytest.fixture
def small_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
def test_failed_write_is_not_mistaken_for_an_interruption(mirror: Mirror, home: Path) -> None:
    with pytest.raises(BadInput, match=r"\.part: cannot write: File too large"):
        download("toy-v0")
    assert len(mirror.requests_for()) == 1
    assert_no_final_file(home)


def test_unwritable_home_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "file"))
    with pytest.raises(BadInput, match="SCOTS_HOME"):
        download("toy-v0")


# ----------------------------------------------------------------------------------------------------------- processes


def start_process() -> subprocess.Popen[str]:
    program = "from scots.datasets.download import download; download('toy-v0')"
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def wait_for_part(home: Path, size: int) -> None:
    part = home / f"{TRAINING}.part"
    deadline = time.monotonic() + 15
    while not part.exists() or part.stat().st_size < size:
        assert time.monotonic() < deadline, "the part did not arrive in time"
        time.sleep(0.01)


def test_killed_download_resumes(mirror: Mirror, home: Path) -> None:
    stall = threading.Event()
    mirror.faults[TRAINING] = [Fault(cut_after=HALF, wait=stall)]
    process = start_process()
    wait_for_part(home, HALF)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    stall.set()
    assert_no_final_file(home)
    download("toy-v0")
    assert_complete(home)
    assert mirror.requests_for()[1].range == f"bytes={HALF}-"


def test_two_processes_share_one_download(mirror: Mirror, home: Path) -> None:
    both_started = threading.Event()
    mirror.faults[TRAINING] = [Fault(cut_after=HALF, wait=both_started)]
    first = start_process()
    wait_for_part(home, HALF)
    second = start_process()
    assert second.stderr is not None
    assert "another process is working on it" in second.stderr.readline()
    both_started.set()
    for process in (first, second):
        process.communicate(timeout=15)
        assert process.returncode == 0
    assert_complete(home)
    assert len(mirror.requests_for(TRAINING)) == len(mirror.requests_for(VALIDATION)) == 1
