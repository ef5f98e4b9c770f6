"""Headless Chromium driven by its own protocol (CDP): real clicks, drags and keys, as a person makes them."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from browser import CHROMIUM
from websockets.sync.client import ClientConnection, connect

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Tab:
    """One page in a browser, with what it printed to its console."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.complaints: list[str] = []  # errors and warnings of the console, failed requests, exceptions
        self.requests: list[str] = []  # addresses that were asked for
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": arguments}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._heard(message)

    def _heard(self, event: dict[str, Any]) -> None:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"]["exception"].get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(f"{said['type']}: {said['args']}")
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def open(self, address: str, width: int, height: int = 900, *, touch: bool = False) -> None:
        """Go to a page in a window of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        for page in ("about:blank", address):  # a fresh page, also if only the part after # is another
            self.call("Page.navigate", url=page)
            self.wait(f"location.href !== 'about:blank' === {json.dumps(page != 'about:blank')}")
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is, as JSON."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(condition):
            assert time.monotonic() < end, f"not within {seconds} s: {condition}"
            time.sleep(0.02)

    def middle(self, selector: str) -> tuple[float, float]:
        """The middle of an element in the window, which is scrolled to it."""
        x, y = self.value(
            f"""(() => {{
              const element = document.querySelector({json.dumps(selector)})
              element.scrollIntoView({{ block: "center" }})
              const box = element.getBoundingClientRect()
              return [box.x + box.width / 2, box.y + box.height / 2]
            }})()"""
        )
        return x, y

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse."""
        self.drag((x, y), (x, y))

    def click_on(self, selector: str) -> None:
        """Click the middle of an element."""
        self.click(*self.middle(selector))

    def drag(self, start: tuple[float, float], end: tuple[float, float], moves: int = 6) -> None:
        """Press the mouse, move it, and release it."""
        self._mouse("mouseMoved", *start)
        self._mouse("mousePressed", *start)
        for n in range(1, moves + 1) if start != end else ():
            self._mouse("mouseMoved", *(a + (b - a) * n / moves for a, b in zip(start, end, strict=True)))
        self._mouse("mouseReleased", *end)

    def _mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {"button": "left", "buttons": 0 if kind == "mouseReleased" else 1, "clickCount": 1}
        held = pressed if kind != "mouseMoved" else {"buttons": 1, "button": "left"}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def tap(self, x: float, y: float) -> None:
        """Touch the screen with one finger."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def tap_until(self, condition: str, target: Callable[[], tuple[float, float]]) -> None:
        """Tap the target until a condition is true: while a page is busy, a touch may last too long to be a tap."""
        for _ in range(12):
            self.tap(*target())
            with suppress(AssertionError):
                return self.wait(condition, 5)
        raise AssertionError(f"taps did not lead to {condition}")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key: a character, or a name such as ArrowLeft, Tab, Enter."""
        codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}
        code = codes.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for _ in range(times):
            said = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            self.call("Input.dispatchKeyEvent", type="keyDown", **said)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """What the window shows, or the whole page, as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def sideways(self) -> int:
        """By how many pixels the page is wider than its window."""
        return self.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@contextmanager
def chromium(home: Path) -> Iterator[Tab]:
    """A browser with one empty tab; `home` is for its profile."""
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={home}", "about:blank"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert process.stderr is not None
        address = next(found[1] for line in process.stderr if (found := re.search(r"listening on (ws://\S+)", line)))
        with connect(address, max_size=None) as whole:
            whole.send(json.dumps({"id": 0, "method": "Target.getTargets", "params": {}}))
            targets = json.loads(whole.recv(timeout=60))["result"]["targetInfos"]
        target = next(own["targetId"] for own in targets if own["type"] == "page")
        page = address.split("/devtools/")[0] + f"/devtools/page/{target}"
        with connect(page, max_size=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(timeout=30)
