"""Chromium without a window, driven by the DevTools protocol: pages are opened, typed into and looked at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 120.0  # seconds that a page has for anything
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "about:blank",
)
_KEYS = {
    "Enter": 13,
    "Tab": 9,
    "Escape": 27,
    "Backspace": 8,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    " ": 32,
    "a": 65,
    "f": 70,
    "z": 90,
}
ALT, CTRL, SHIFT = 1, 2, 8
_COMMANDS = {"a": "selectAll", "z": "undo"}
"""What a key with CTRL does to a text, which the editor of a browser without a window is told."""
_UNANSWERED = 0
"""The id of commands whose answer nobody waits for."""
_GONE = ("Inspected target navigated or closed", "Execution context was destroyed", "Cannot find context with specified id")


class Navigated(Exception):
    """The page that a command was meant for has given way to another one."""


class Page:
    """One tab. `problems`: exceptions, console messages of warnings and errors, and what the policy of a page has refused. `requested`: addresses.
    `statuses`: of the last answer of each address."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._calls = 0
        self.problems: list[str] = []
        self.requested: list[str] = []
        self.statuses: dict[str, int] = {}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol; what it results in. Events that come before its answer are noted. Raises Navigated."""
        self._calls += 1
        self._connection.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(timeout=LIMIT))
            if message.get("id") == self._calls:
                if message.get("error", {}).get("message", "").startswith(_GONE):
                    raise Navigated(method)
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result
            if message.get("id") != _UNANSWERED:
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message["params"]
        match message["method"]:
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.problems.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning") and parameters["entry"]["source"] != "network":
                self.problems.append(parameters["entry"]["text"])
            case "Network.responseReceived":
                self.statuses[parameters["response"]["url"]] = parameters["response"]["status"]
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.problems.append(f"dialog: {parameters['message']}")
                self._connection.send(json.dumps({"id": _UNANSWERED, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}))

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(address.partition('#')[0])})")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, a promise's when it is there. Raises AssertionError for an exception."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """The value of an expression as soon as it is true, of whatever page is there by then."""
        deadline = time.monotonic() + LIMIT
        while True:
            with suppress(Navigated):
                if value := self.evaluate(expression):
                    return value
                assert time.monotonic() < deadline, (expression, self.evaluate("document.body.innerText"), self.problems)
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What the first element that fits holds."""
        found: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
        return found

    def click(self, selector: str) -> None:
        self.click_on(f"document.querySelector({json.dumps(selector)})")

    def click_on(self, element: str) -> None:
        """Click on what an expression results in. It may lead to another page before it is answered."""
        with suppress(Navigated):
            self.evaluate(f"({element}).click()")

    def type(self, text: str) -> None:
        """Press a key for each character."""
        for character in text:
            if character == "\n":
                self._send_key({"key": "Enter"}, {"text": "\r"})
            else:
                self._send_key({"key": character}, {"text": character})

    def press(self, key: str, modifiers: int = 0) -> None:
        """One key, with ALT, CTRL, SHIFT."""
        code = _KEYS[key]
        common = {
            "key": key,
            "code": f"Key{key.upper()}" if key.isalpha() and len(key) == 1 else key,
            "modifiers": modifiers,
            "windowsVirtualKeyCode": code,
        }
        extra: dict[str, Any] = {"text": "\r"} if key == "Enter" and not modifiers else {}
        if key in _COMMANDS and modifiers == CTRL:
            extra = {"commands": [_COMMANDS[key]]}
        self._send_key(common, extra)

    def _send_key(self, key: dict[str, Any], pressed: dict[str, Any]) -> None:
        with suppress(Navigated):  # it may send a form
            self.call("Input.dispatchKeyEvent", type="keyDown" if pressed else "rawKeyDown", **key, **pressed)
            self.call("Input.dispatchKeyEvent", type="keyUp", **key)


@contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """A browser of its own with one tab. `profile`: a folder for what it keeps."""
    assert CHROMIUM is not None
    with (profile / "chromium.log").open("wb") as output:
        command = [CHROMIUM, *_ARGUMENTS, f"--user-data-dir={profile}"]
        browser = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            with connect(_address(profile, browser), max_size=None, open_timeout=LIMIT, proxy=None) as connection:
                yield Page(connection)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # it is several processes
            browser.wait()


def _address(profile: Path, browser: subprocess.Popen[bytes]) -> str:
    """Of the tab that it opens with."""
    deadline = time.monotonic() + LIMIT
    port_file = profile / "DevToolsActivePort"
    while True:
        assert browser.poll() is None and time.monotonic() < deadline, (profile / "chromium.log").read_text(errors="replace")[-2000:]
        if port_file.exists() and (lines := port_file.read_text().split()):
            tabs = httpx.get(f"http://127.0.0.1:{lines[0]}/json/list", timeout=LIMIT, trust_env=False).json()
            for tab in tabs:
                if tab["type"] == "page":
                    found: str = tab["webSocketDebuggerUrl"]
                    return found
        time.sleep(0.02)
