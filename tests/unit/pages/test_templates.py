from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import svc
from svc.pages.cells import lines_of
from svc.pages.collection import data_page
from svc.pages.frame import Frame
from svc.pages.templates import Templates
from tests.support.pages import Parsed
from tests.support.profile import half_by_day

FRAME = Frame("../", "../_pages/", "../p.css", "../i.svg", "http://x/", "", "", "", {"page": "../page.js"})
HOSTILE = "\"><img src=x onerror=alert(1)><script>'&"


def error(text: str) -> dict[str, Any]:
    names = ("title", "code", "detail", "request", "before", "at")
    frame = Frame("../", "../_pages/", "../p.css", "../i.svg", text, text, "", "", {"page": "../page.js"})
    return {
        "frame": frame,
        "status": 403,
        "errors": [text],
        "faults": [text],
        "retryable": True,
        "trail": [(text, "Flight/")],
        "filter": None,
        "line": None,
        "formats": [],
        "actions": [],
        **dict.fromkeys(names, text),
    }


def test_what_is_put_in_is_text() -> None:
    body = asyncio.run(Templates(lambda: 0.0).render("error.html", error(HOSTILE)))
    page = Parsed(body)
    assert page.text.count(HOSTILE) >= 6


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([HOSTILE, "</script>", "javascript:alert(1)"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(HOSTILE), inner),
    max_leaves=20,
)
SHARED = Templates(lambda: 0.0)


@settings(max_examples=half_by_day(60))
@given(json_like)
def test_any_data_is_a_page_of_known_elements(value: Any) -> None:
    values = {"page": data_page(value), "title": "t", "trail": [], "formats": [], "actions": [], "frame": FRAME}
    Parsed(asyncio.run(SHARED.render("data.html", values)))


def test_it_gives_way_to_others_while_it_works() -> None:
    time = iter(range(100_000))
    templates = Templates(lambda: float(next(time)))
    values = {
        "page": {"table": None, "lines": lines_of([list(range(100))] * 5), "count": None, "is_cut": False},
        "title": "t",
        "trail": [],
        "formats": [],
        "actions": [],
        "frame": FRAME,
    }
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> bytes:
        other = asyncio.ensure_future(count())
        body = await templates.render("data.html", values)
        other.cancel()
        return body

    body = asyncio.run(run())
    assert body.count(b"<dt>") == 505 and turns > 10


def test_they_are_loaded_once_on_a_helper_thread() -> None:
    with ThreadPoolExecutor(1) as executor:
        templates = Templates(lambda: 0.0, executor)
        assert templates.maybe_render("error.html", error("x")) is None

        async def both() -> list[bytes]:
            return await asyncio.gather(templates.render("error.html", error("a")), templates.render("error.html", error("b")))

        first, second = asyncio.run(both())
        assert b"<title>a</title>" in first and b"<title>b</title>" in second
        assert b"<title>c</title>" in (templates.maybe_render("error.html", error("c")) or b"")


def test_what_a_template_imports_is_there() -> None:
    """Jinja finds that out when the page is asked for."""
    package = Path(svc.__file__).parent
    files = {
        path.name: path.read_text("utf-8")
        for folder in ("pages/templates", "console/templates")
        for path in (package / folder).glob("*.html")
    }
    macros = {name: set(re.findall(r"{%-? macro (\w+)", text)) for name, text in files.items()}
    for name, text in files.items():
        for source, imported in re.findall(r'{% from "([\w.]+)" import ([^%]*?)(?: with context)? %}', text):
            names = {each.strip().partition(" as ")[0] for each in imported.split(",")}
            assert names <= macros[source], (name, source, names - macros[source])
        assert set(re.findall(r'{% (?:include|extends) "([\w.]+)"', text)) <= files.keys(), name
