"""What the server refuses: other hosts, what is too large, malformed or outside; and that many may ask at once."""

from __future__ import annotations

import json
import socket
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from app_run import serving, without
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.app.server import LARGEST_BODY, LOCAL, bind, page_files
from scots.app.session import Session
from scots.core.errors import BadInput

STITCH = {"start": [3.0, 5.0], "direction": [7.0, 1.0], "novelty_weight": 2.0, "stitches": 5}
PLAN = {"start": [3.0, 5.0], "goal": [7.0, 1.0], "candidates": 1}
Address = tuple[str, int]


def ask(
    address: Address, path: str, body: bytes | None = None, method: str | None = None, **headers: str
) -> tuple[int, str]:
    """Status and text of an answer."""
    connection = HTTPConnection(*address, timeout=60)
    try:
        named = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method or ("GET" if body is None else "POST"), path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def post(address: Address, kind: str, question: Any) -> tuple[int, str]:
    return ask(address, f"/api/{kind}", json.dumps(question).encode())


# ------------------------------------------------------------------------------------------------------------- answers


def test_the_page_and_its_answers(address: Address, session: Session):
    status, page = ask(address, "/")
    assert (status, page.count("<canvas")) == (200, 1)
    for name in page_files():
        assert ask(address, f"/{name}")[0] == 200
    assert json.loads(ask(address, "/api/scene")[1]) == session.scene.model_dump(mode="json")
    assert len(json.loads(post(address, "stitch", STITCH)[1])["stitches"]) == 5
    assert post(address, "distance", {"start": [3.0, 5.0]})[0] == 200
    assert json.loads(post(address, "plan", PLAN)[1])["cost"] > 0
    assert json.loads(ask(address, "/api/rollout/0")[1])["label"] == "task 1: reached in 19 steps"


def test_every_answer_forbids_what_the_page_does_not_need(address: Address):
    for path in ("/", "/api/scene", "/nothing", "/api/stitch"):
        connection = HTTPConnection(*address)
        connection.request("GET", path)
        answer = connection.getresponse()
        policy = answer.getheader("content-security-policy")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert answer.getheader("access-control-allow-origin") is None
        answer.read()
        connection.close()


def test_what_a_run_does_not_hold_is_named_with_its_command(session: Session):
    with serving(without(session, "plan", "stitch")) as address:
        status, text = post(address, "plan", PLAN)
        assert (status, json.loads(text)["error"]) == (404, "not available here; first run: scots doctor")
        assert post(address, "distance", {"start": [1, 1]})[0] == 200


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "0.0.0.0"])
def test_other_hosts_are_refused(address: Address, host: str):
    assert ask(address, "/api/scene", host=host)[0] == 400
    assert ask(address, "/api/scene", host=f"localhost:{address[1]}")[0] == 200


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"start": [1]}, "start.1: Field required"),
        ({"start": [1, 2, 3]}, "start: Tuple should have at most 2 items"),
        ({"start": ["1", "2"]}, "start.0: Input should be a valid number"),
        ({"start": [True, 2]}, "start.0: Input should be a valid number"),
        ({"start": [1e300, 2]}, "start.0: Input should be less than or equal to 1000000000"),
        ({"start": [float("nan"), 2]}, "start.0: Input should be a finite number"),
        (STITCH | {"stitches": 201}, "stitches: Input should be less than or equal to 200"),
        (STITCH | {"stitches": 2.5}, "stitches: Input should be a valid integer"),
        (STITCH | {"novelty_weight": -1}, "novelty_weight: Input should be greater than or equal to 0"),
        (STITCH | {"__class__": "\ud800"}, "__class__: Extra inputs are not permitted"),
        (STITCH | {"direction": STITCH["start"]}, "the direction leads from the start to itself: move either of them"),
        ([], "Input should be a valid dictionary or object to extract fields from"),
        (None, "Input should be a valid dictionary"),
    ],
)
def test_malformed_questions_get_one_line(address: Address, question: Any, complaint: str):
    status, text = post(address, "stitch", question)
    assert status == 422
    assert complaint in json.loads(text)["error"]
    assert "\n" not in text


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 4000, b"\xff\xfe", b'{"start": [1, 2]', b"NaN", b'{"start": [1e999, 1]}', b"\x00" * 50]
)
def test_bodies_that_are_no_json_are_refused(address: Address, body: bytes):
    assert 400 <= ask(address, "/api/stitch", body, "POST")[0] < 500


def test_bodies_that_are_too_large_are_refused_also_when_they_do_not_say_so(address: Address):
    assert ask(address, "/api/stitch", b" " * (LARGEST_BODY + 1))[0] == 413
    with socket.create_connection(address, timeout=30) as raw:
        chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
        head = f"POST /api/stitch HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.sendall(head.encode() + 8 * chunk)
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    assert ask(address, "/" + "x" * 100_000)[0] in (400, 404, 414, 431)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page/index.html",
        "/%00",
        "/index.html%00.js",
        "//etc/passwd",
        "/api/rollout/../../../etc/passwd",
        "/api/rollout/-1",
        "/api/rollout/1",
        "/api/rollout/99999999999999999999999999",
        "/api/rollout/x",
        "/openapi.json",
        "/docs",
        "/session.py",
        "/.git/config",
    ],
)
def test_nothing_else_is_read(address: Address, path: str):
    status, text = ask(address, path)
    assert 400 <= status < 500
    assert "root:" not in text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(address: Address, method: str):
    for path in ("/", "/api/scene", "/api/plan"):
        assert ask(address, path, method=method)[0] in (400, 405)


def test_a_body_of_another_kind_is_refused(address: Address):
    """A page of another site may send a form or plain text without being asked whether it may, but not JSON."""
    assert ask(address, "/api/stitch", json.dumps(STITCH).encode(), content_type="text/plain")[0] == 422


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
NAMED = st.dictionaries(st.sampled_from([*STITCH, *PLAN, "draw", "more"]), JSON, max_size=6)


@given(kind=st.sampled_from(["stitch", "plan", "distance"]), question=JSON | NAMED)
@settings(max_examples=100)
def test_whatever_is_sent_is_answered_or_refused(address: Address, kind: str, question: Any):
    status, text = post(address, kind, question)
    assert status == 200 or 400 <= status < 500
    assert "Traceback" not in text


@given(body=st.binary(max_size=200), path=st.sampled_from(["/api/stitch", "/api/plan", "/api/distance"]))
@settings(max_examples=100)
def test_noise_is_refused(address: Address, body: bytes, path: str):
    assert 400 <= ask(address, path, body, "POST")[0] < 500


# ------------------------------------------------------------------------------------------------------------- at once


@pytest.mark.slow
def test_fifty_clients_at_once_are_all_answered(address: Address):
    """A few questions each; `benchmarks/app.py` asks for a minute."""
    failures, done = [], []

    def client(number: int) -> None:
        for kind, question in [("stitch", STITCH), ("distance", {"start": [3.0, 5.0]}), ("plan", PLAN)]:
            status, text = post(address, kind, question | {"start": [3.0 + number / 50, 5.0]})
            if status != 200:
                failures.append(text)
        done.append(number)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(50)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert failures == []
    assert sorted(done) == list(range(50))


# ------------------------------------------------------------------------------------------------------------- binding


def test_it_listens_on_this_machine_alone_unless_told(tmp_path: Path):
    with bind(LOCAL[0], 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        with pytest.raises(BadInput, match="choose another --port"):
            bind(*listener.getsockname())
    for everywhere in ("0.0.0.0", "::", ""):
        with pytest.raises(BadInput, match="name the address"):
            bind(everywhere, 0)
    with pytest.raises(BadInput, match="cannot serve on"):
        bind("no-such-host.invalid", 0)
