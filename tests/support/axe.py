"""What axe-core, Deque's engine for the rules of WCAG 2.2, finds on a page in Chromium; and what a reader without a pointer or with a narrow screen meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.chromium import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """axe.run(document, {runOnly: {type: 'tag', values: TAGS}, resultTypes: ['violations']}).then(({violations}) =>
  violations.map(({id, help, nodes}) => ({id, help, nodes: nodes.slice(0, 5).map(({html, failureSummary}) => html.slice(0, 300) + ' ' + failureSummary)})))"""
_WIDE = """[...document.querySelectorAll('body *')].filter((element) => {
  if (element.closest('.skip, svg')) return false;
  for (let parent = element.parentElement; parent && parent !== document.body; parent = parent.parentElement)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(parent).overflowX)) return false;
  return element.getBoundingClientRect().right > innerWidth + 1;
}).slice(0, 5).map((element) => element.outerHTML.slice(0, 200))"""


def source(packages: Path) -> str:
    """The script. `packages`: the directory with `node_modules`."""
    return (packages / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page, script: str) -> list[dict[str, Any]]:
    """Of the page as it is shown. `script`: `source`. It is put in by the browser's tools, so the policy of the page stays as it is."""
    page.evaluate(f"{script}; true")
    found: list[dict[str, Any]] = page.evaluate(_RUN.replace("TAGS", str(TAGS)))
    return found


def too_wide(page: Page) -> list[str]:
    """Elements that reach beyond the right edge of the window, but for those in areas that scroll by themselves."""
    found: list[str] = page.evaluate(_WIDE)
    return found


def emulate(page: Page, *, width: int = 1280, height: int = 900, dark: bool = False, reduced: bool = False, scale: float = 1) -> None:
    """The screen of the reader. `scale`: of the text and all else, as zooming does."""
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=round(width / scale),
        height=round(height / scale),
        deviceScaleFactor=scale,
        mobile=False,
    )
    features = [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"},
    ]
    page.call("Emulation.setEmulatedMedia", features=features)
