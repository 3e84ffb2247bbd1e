"""docs/mail.md, done as it says: its files are written, and pytest is run in their directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from svc.config import Config
from tests.support.pytest_pages import DOCS, run_page

pytestmark = pytest.mark.programs


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("mail.md", tmp_path / "theatre")


def test_the_configuration_is_one(tmp_path: Path) -> None:
    [text] = [
        found
        for found in re.findall(r"^```yaml\n(.*?)^```$", (DOCS / "mail.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
        if "mail:" in found
    ]
    mail = Config.from_document(yaml.safe_load(text), tmp_path).mail
    assert mail is not None and mail.sender == ("The theatre", "theatre@example.org") and mail.tls == "starttls"
