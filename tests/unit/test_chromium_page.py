"""A tab of Chromium that tests drive: what comes between a command and its answer."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from tests.support.chromium import Page


class Browser:
    """A connection to one in which each expression shows a dialog. `sent`: commands."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._answers: deque[dict[str, Any]] = deque()
        self._waiting: list[dict[str, Any]] = []

    def send(self, text: str) -> None:
        command = json.loads(text)
        self.sent.append(command)
        answer = {"id": command["id"], "result": {"result": {"value": 7}}}
        if command["method"] == "Runtime.evaluate":
            self._answers.append({"method": "Page.javascriptDialogOpening", "params": {"message": "hello"}})
            self._waiting.append(answer)
            return
        self._answers.append(answer)
        if command["method"] == "Page.handleJavaScriptDialog":
            self._answers.extend(self._waiting)

    def recv(self, timeout: float) -> str:
        return json.dumps(self._answers.popleft())


def test_a_dialog_is_closed_and_noted() -> None:
    browser = Browser()
    page = Page(browser)  # type: ignore[arg-type]
    assert page.evaluate("confirm('hello')") == 7
    assert page.problems == ["dialog: hello"]
    assert browser.sent[-1]["params"] == {"accept": False}
    assert page.call("Page.enable") == {"result": {"value": 7}}
