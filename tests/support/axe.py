"""What axe-core, Deque's engine for the rules of WCAG 2.2, finds on a page in Chromium; and what a reader without a pointer or with a narrow screen meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.chromium import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """axe.run(document, {runOnly: ONLY, resultTypes: ['violations']}).then(({violations}) =>
  violations.map(({id, help, nodes}) => ({id, help, nodes: nodes.slice(0, 5).map(({html, failureSummary}) => html.slice(0, 300) + ' ' + failureSummary)})))"""
_WIDE = """[...document.querySelectorAll('body *')].filter((element) => {
  if (element.closest('.skip, svg') || !element.checkVisibility()) return false;
  for (let parent = element.parentElement; parent && parent !== document.body; parent = parent.parentElement)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(parent).overflowX)) return false;
  return element.getBoundingClientRect().right > innerWidth + 1;
}).slice(0, 5).map((element) => element.outerHTML.slice(0, 200))"""


_FAINT = """(() => {
  const parse = (text) => { const found = text.match(/[0-9.]+/g).map(Number); return found.length < 4 || found[3] === 1 ? found.slice(0, 3) : null; };
  const light = (rgb) => rgb.map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => { const [a, b] = [light(one), light(other)]; return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
  const behind = (element) => {
    for (let each = element.parentElement; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color) return color;
    }
    return [255, 255, 255];
  };
  const others = '[type=checkbox], [type=radio], [type=range], [type=file], [type=hidden]';
  return [...document.querySelectorAll(`input:not(${others}), select, textarea, button, a.button`)]
    .filter((each) => each.checkVisibility() && getComputedStyle(each).borderTopStyle !== 'none')
    .map((each) => { const style = getComputedStyle(each); return [each, contrast(parse(style.borderTopColor) ?? behind(each), behind(each))]; })
    .filter(([, found]) => found < 3).slice(0, 5).map(([each, found]) => `a border of ${found.toFixed(2)}: ${each.outerHTML.slice(0, 200)}`);
})()"""


def source(packages: Path) -> str:
    """The script. `packages`: the directory with `node_modules`."""
    return (packages / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page, script: str, rules: list[str] | None = None) -> list[Any]:
    """Of the page as it is shown. `script`: `source`. It is put in by the browser's tools, so the policy of the page stays as it is. `rules`: only these."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{script}; true")
    only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": TAGS}
    found: list[Any] = page.evaluate(_RUN.replace("ONLY", str(only)))
    return found


def faint_borders(page: Page) -> list[Any]:
    """Controls whose border has less than 3:1 against what is behind it (WCAG 2.2, 1.4.11)."""
    found: list[Any] = page.evaluate(_FAINT)
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
