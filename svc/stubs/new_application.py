"""A new application: files to begin with, from `application/` beside this module.

They are templates of Jinja, which gives them `name` and `accounts`. Its statements are lines such as `#% if accounts %#`, comments to whatever else reads such
a file. A file of which nothing is left is not written.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from errno import EEXIST, ENOTDIR, ENOTEMPTY
from pathlib import Path
from secrets import token_hex

from svc.stubs.output import write_changed, write_stubs

_NAME = re.compile(r"[a-zA-Z0-9\-_]+")
_TEMPLATE = Path(__file__).with_name("application")
_RENAMED = {"gitignore": ".gitignore"}  # under its own name it would have an effect here
MAX_NAME = 100


class ApplicationExists(Exception):
    """There is something in the place of the new application already."""


def check_name(name: str) -> None:
    """Raise ValueError for a name that applications cannot have."""
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        raise ValueError(f"the name of an application consists of at most {MAX_NAME} letters, digits, - and _, not {name[:200]!r}")


def write_application(directory: Path, name: str, *, accounts: bool = False) -> list[Path]:
    """Write the files of a small working application, named `name`, into `directory`, which is made; all paths of files, sorted.

    `accounts`: people sign up for it, and see what is theirs.
    It is there as a whole or not at all. Raises ValueError for an invalid name, ApplicationExists if the directory is there and not empty, OSError.
    Blocks for some milliseconds.
    """
    check_name(name)
    if directory.is_symlink() or (directory.exists() and (not directory.is_dir() or any(directory.iterdir()))):
        raise ApplicationExists(f"{directory} exists already")
    directory.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.with_name(f".{name}.{token_hex(6)}")
    aside.mkdir()
    try:
        for path, text in _texts(name, accounts):
            write_changed(aside / path, text)
        write_stubs(aside)
        try:
            os.rename(aside, directory)
        except OSError as error:
            if error.errno not in (ENOTEMPTY, EEXIST, ENOTDIR):
                raise
            raise ApplicationExists(f"{directory} exists already") from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _texts(name: str, accounts: bool) -> Iterator[tuple[Path, str]]:
    """(path below the application, content) of its files."""
    from jinja2 import Environment, StrictUndefined

    templates = Environment(
        block_start_string="#%", block_end_string="%#", trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    for source in sorted(_TEMPLATE.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            below = source.relative_to(_TEMPLATE)
            text = templates.from_string(source.read_text(encoding="utf-8")).render(name=name, accounts=accounts)
            if text:
                yield below.with_name(_RENAMED.get(below.name, below.name)), text
