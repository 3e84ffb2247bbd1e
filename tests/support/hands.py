"""A person at a page in Chromium, who finds what there is by its role and name, as assistive programs do: with a keyboard alone, or with a pointer.

Nothing is done by scripts: keys and buttons of the pointer go into the browser, which may have scripts switched off. What is looked up is only looked up.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.chromium import CTRL, SHIFT, Navigated, Page

PRESSED = ("button", "link", "DisclosureTriangle")
ENTERED = ("textbox", "searchbox", "combobox")
CHOSEN = ("combobox",)
TICKED = ("checkbox", "radio")
_FOCUSABLE = "document.querySelectorAll('a[href], button, input, select, textarea, summary, audio, [tabindex]').length"
_FOCUS = """function () {
  const at = document.activeElement;
  const isInGroup = this.type === "radio" && at.type === "radio" && at.name === this.name;
  const isBefore = at.compareDocumentPosition(this) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [at === this ? "here" : isInGroup ? "group" : isBefore ? "before" : "behind", at.outerHTML.slice(0, 60)];
}"""
_IS_SEEN = """function () {
  const {left, top, right, bottom} = this.getBoundingClientRect();
  return this.matches(":focus-visible") && right > left && bottom > top && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight;
}"""
_IS_HIT = (
    "function (x, y) { const hit = document.elementFromPoint(x, y); return this === hit || this.contains(hit) || !!hit?.contains(this); }"
)


class Keyboard:
    """Tab, Shift+Tab, Enter, the space bar, arrows, and letters."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)  # a tab without a window has no focus

    def arrive(self, title: str = "", address: str = "", text: str = "") -> None:
        """Wait for a page with this heading, with this in its address and this text in its content, as far as they are given."""
        looked_for = [
            "document.readyState === 'complete' && document.getElementById('main') !== null",
            *([f"document.querySelector('h1')?.textContent === {json.dumps(title)}"] if title else []),
            f"decodeURI(location.href).includes({json.dumps(address)})",
            f"document.getElementById('main').textContent.includes({json.dumps(text)})",
        ]
        self.page.until(" && ".join(looked_for))

    def press(self, name: str) -> None:
        """A link, a button, the summary of details. Raises AssertionError if there is none of this name, as all others do."""
        self._reach(self.find(name, PRESSED))
        self.page.press("Enter")

    def enter(self, name: str, text: str) -> None:
        """In place of the text of a field."""
        self._reach(self.find(name, ENTERED))
        self._replace(text)

    def tick(self, name: str) -> None:
        """A box that has no tick, or one of several buttons."""
        element = self.find(name, TICKED)
        self._reach(element)
        if not self._asked(element, "function () { return this.checked; }"):
            self.page.press(" ")
        assert self._asked(element, "function () { return this.checked; }"), name

    def choose(self, name: str, option: str) -> None:
        """An option of a list, by its first letters."""
        element = self.find(name, CHOSEN)
        self._reach(element)
        self.page.type(option)
        chosen = self._asked(element, "function () { return this.selectedOptions[0].textContent; }")
        assert chosen == option, (name, chosen)

    def attach(self, name: str, file: Path) -> None:
        """Choose a file. The dialog is of the system, so the browser is told what was chosen there."""
        element = self.find(name, ("button",))
        self._reach(element)
        self.page.call("DOM.setFileInputFiles", objectId=element, files=[str(file)])

    def names(self, *roles: str) -> list[str]:
        """Of what is there, for a caller to compare."""
        return [name for name, _ in self._all(roles or PRESSED)]

    def find(self, name: str, roles: tuple[str, ...]) -> str:
        """The id of the first element of this name, or whose name begins with this word."""
        found = self._all(roles)
        for fits in (lambda each: each == name, lambda each: each.startswith(f"{name} ")):
            for each, node in found:
                if fits(each):
                    resolved: str = self.page.call("DOM.resolveNode", backendNodeId=node)["object"]["objectId"]
                    return resolved
        raise AssertionError((name, [each for each, _ in found], self.page.evaluate("location.href")))

    def _all(self, roles: tuple[str, ...]) -> list[tuple[str, int]]:
        """Names and nodes, in the order of the page for each role."""
        document = self.page.call("Runtime.evaluate", expression="document")["result"]["objectId"]
        found: list[dict[str, Any]] = []
        for role in roles:
            found += self.page.call("Accessibility.queryAXTree", objectId=document, role=role)["nodes"]
        return [(each["name"]["value"], each["backendDOMNodeId"]) for each in found if not each["ignored"]]

    def _asked(self, element: str, function: str, *arguments: float) -> Any:
        """What a function finds that looks at an element."""
        values = [{"value": each} for each in arguments]
        answer = self.page.call(
            "Runtime.callFunctionOn", objectId=element, functionDeclaration=function, arguments=values, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _reach(self, element: str) -> None:
        """Give an element the focus, by as many keys as there are elements that may have it. It is seen then."""
        passed = []
        for _ in range(self.page.evaluate(_FOCUSABLE) + 2):
            place, focused = self._asked(element, _FOCUS)
            passed.append(focused)
            if place == "here":
                assert self._asked(element, _IS_SEEN), "what has the focus is not seen"
                return
            if place == "group":
                self.page.press("ArrowDown")
            else:
                self.page.press("Tab", SHIFT if place == "behind" else 0)
        raise AssertionError(passed)

    def _replace(self, text: str) -> None:
        self.page.press("a", CTRL)
        self.page.press("Backspace")
        self.page.type(text)


class Pointer(Keyboard):
    """A pointer for links, buttons, boxes and fields; text, and lists, which the system draws, by the keyboard."""

    def press(self, name: str) -> None:
        self._click(self.find(name, PRESSED))

    def enter(self, name: str, text: str) -> None:
        self._click(self.find(name, ENTERED))
        self._replace(text)

    def tick(self, name: str) -> None:
        element = self.find(name, TICKED)
        if not self._asked(element, "function () { return this.checked; }"):
            self._click(element)
        assert self._asked(element, "function () { return this.checked; }"), name

    def _click(self, element: str) -> None:
        """In the middle of what is seen of it; nothing lies above it there."""
        self.page.call("DOM.scrollIntoViewIfNeeded", objectId=element)
        quad = self.page.call("DOM.getContentQuads", objectId=element)["quads"][0]
        x, y = sum(quad[::2]) / 4, sum(quad[1::2]) / 4
        assert self._asked(element, _IS_HIT, x, y), "something else is there"
        with suppress(Navigated):
            for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
                button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
                self.page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
