"""The forms of accounts in Chromium."""

from __future__ import annotations

from tests.support.chromium import Page


def heading(page: Page, text: str) -> None:
    """Wait for the page with this title."""
    page.until(f"document.querySelector('h1')?.textContent == {text!r} && document.readyState == 'complete'")


def fill(page: Page, title: str, **fields: str) -> None:
    """Enter into the form of the page with this title, and send it."""
    heading(page, title)
    for name, text in fields.items():
        page.evaluate(f"document.querySelector('form.login [name={name}]').select()")
        page.type(text)
    page.click("form.login button")
