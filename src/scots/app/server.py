"""The server behind the page: its routes, and what it refuses.

It answers only on the address it is bound to and under that name, reads no file while it runs, runs no code that is
sent to it, and refuses in one line what is too large or malformed.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import socket
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as RoutingError
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scots.app import messages
from scots.app.session import Session
from scots.core.errors import BadInput

LARGEST_BODY = 4096
"""Bytes of a request, many times what the page sends."""

LOCAL = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_Answer = TypeVar("_Answer")


def page_files() -> dict[str, bytes]:
    """The files of the page by name: the few that there are, so that no other can be asked for."""
    folder = resources.files("scots.app") / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith((".html", ".css", ".js"))}


def build_app(session: Session, hosts: Sequence[str] = LOCAL) -> FastAPI:
    """The routes of a session; requests must name one of these hosts."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(_Guard)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    _add_errors(app)
    _add_questions(app, session)
    files = page_files()

    @app.get("/")
    async def index() -> Response:
        return Response(files["index.html"], media_type="text/html")

    @app.get("/{name}")
    async def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "no such page")
        return Response(files[name], media_type=mimetypes.guess_type(name)[0])

    return app


def _add_questions(app: FastAPI, session: Session) -> None:
    """What the page asks. Questions of one kind are answered one after the other: the index and networks are shared."""
    scene, states, explorer, plans = session.scene, session.states, session.explorer, session.plans
    walking, planning = asyncio.Lock(), asyncio.Lock()

    async def answer(part: str, lock: asyncio.Lock, ask: Callable[[Any], _Answer] | None, question: Any) -> _Answer:
        if ask is None:
            raise HTTPException(404, f"not available here; first run: {scene.missing[part]}")
        async with lock:
            return await run_in_threadpool(ask, question)

    @app.get("/api/scene")
    async def ask_scene() -> messages.Scene:
        return scene

    @app.post("/api/distance")
    async def ask_distance(question: messages.DistanceRequest) -> messages.DistanceAnswer:
        return await answer("distance", walking, states.distances if states else None, question)

    @app.post("/api/stitch")
    async def ask_stitch(question: messages.StitchRequest) -> messages.StitchAnswer:
        return await answer("stitch", walking, explorer.stitch if explorer else None, question)

    @app.post("/api/plan")
    async def ask_plan(question: messages.PlanRequest) -> messages.PlanAnswer:
        return await answer("plan", planning, plans.plan if plans else None, question)

    @app.get("/api/rollout/{number}")
    async def ask_rollout(number: int) -> messages.Rollout:
        if not 0 <= number < len(session.rollouts):
            raise HTTPException(404, "no such episode")
        return session.rollouts[number]


# -------------------------------------------------------------------------------------------------------------- errors


def _add_errors(app: FastAPI) -> None:
    """Every refusal is one line of JSON, and says nothing that was not sent."""

    @app.exception_handler(BadInput)
    async def bad_input(request: Request, error: BadInput) -> Response:
        return _refusal(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _refusal(422, f"{'.'.join(map(str, first['loc'][1:])) or 'request'}: {first['msg']}")

    @app.exception_handler(RoutingError)
    async def no_route(request: Request, error: RoutingError) -> Response:
        return _refusal(error.status_code, str(error.detail))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return _refusal(500, "internal error; the terminal of `scots app` says more")


def _refusal(status: int, words: str) -> Response:
    """One line in ASCII, whatever was sent."""
    return Response(json.dumps({"error": " ".join(words.split())[:500]}), status, media_type="application/json")


class _Guard:
    """Refuses bodies that are too large, also when they do not say so, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its body is too large."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        body = await _body(scope, receive)
        if body is None:
            await _refusal(413, f"more than {LARGEST_BODY} bytes")(scope, receive, send_guarded)
            return
        sent = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_body() -> Message:
            return next(sent, None) or await receive()

        await self._app(scope, receive_body, send_guarded)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body of a request, or None if it is too large; what comes after is not read."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdigit() or int(length) > LARGEST_BODY:
        return None
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            return None
    return body


# ------------------------------------------------------------------------------------------------------------- serving


def bind(host: str, port: int) -> socket.socket:
    """A socket to serve on; bad input if that is not possible."""
    if host in ("", "0.0.0.0", "::"):
        raise BadInput(f"--host {host}: name the address by which others reach this machine; requests must name it too")
    try:
        return socket.create_server((host, port))
    except OSError as error:
        reason = error.strerror or error
        raise BadInput(f"cannot serve on {host}:{port}: {reason}; choose another --port, or 0 for any") from error


def serve(session: Session, listener: socket.socket, host: str) -> None:
    """Answer requests until interrupted."""
    app = build_app(session, (*LOCAL, host))
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, ws="none", lifespan="off")).run(
        [listener]
    )
