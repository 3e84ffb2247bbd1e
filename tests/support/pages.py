"""Pages, read as a browser reads them: elements, cells of tables, links."""

from __future__ import annotations

import re
from html.parser import HTMLParser

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
ALONE = {"meta", "link", "img", "input", "br", "hr"}
KNOWN = ALONE | {
    "html", "head", "title", "body", "a", "header", "nav", "span", "div", "b", "main", "h1", "h2", "h3", "h4", "p", "code", "form", "select", "option",
    "optgroup", "button", "ul", "ol", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "dl", "dt", "dd", "label", "pre", "mark",
    "textarea", "script", "dialog", "fieldset", "legend", "details", "summary", "figure", "figcaption", "footer", "section", "progress", "ins", "del",
    "time", "output", "datalist", "strong", "em", "kbd", "small", "template", "article", "audio", "video", "svg", "g", "path", "rect", "line", "circle",
    "polyline", "polygon", "text", "tspan", "desc", "noscript",
}  # fmt: skip
LEADING = ("./", "../", "?", "#main")
PORT = re.compile(r"https?://(localhost|127\.0\.0\.1):[0-9]+/")
"""A page of another port of this server: of the host that tests ask."""


class Parsed(HTMLParser):
    """Raises AssertionError for what no page of ours has: other elements, handlers of events, styles, addresses that lead away."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.links: dict[str, str] = {}
        """Address by text: of several links with one text, the last."""
        self.text = ""
        self.reload = ""
        """After how many seconds a browser without scripts asks again."""
        self._open: list[str] = []
        self._link: tuple[str, str] | None = None
        self.feed(body.decode())
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert tag in KNOWN, tag
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("style", "srcdoc", "formaction"), (tag, attributes)
            if name in ("href", "src", "action"):
                assert value.startswith(LEADING) or (tag == "a" and (value.startswith("#") or PORT.match(value))), (tag, attributes)
        if tag == "script":
            assert attributes.keys() == {"type", "src"} and attributes["type"] == "module", attributes
        self.elements.append((tag, attributes))
        if tag == "meta" and attributes.get("http-equiv") == "refresh" and "noscript" in self._open:
            self.reload = attributes["content"]
        if tag not in ALONE:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "a":
            self._link = attributes["href"], attributes.get("aria-label", "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "a":
            self._link = None

    def handle_data(self, data: str) -> None:
        assert "script" not in self._open or not data.strip(), data
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data
        if self._link is not None:
            self.links[self._link[1] or data] = self._link[0]

    def find(self, tag: str, **attributes: str) -> dict[str, str]:
        """The attributes of the first element like this. Raises StopIteration."""
        return next(found for name, found in self.elements if name == tag and attributes.items() <= found.items())
