"""Mails from templates (Jinja): values -> subject, text, HTML.

A mail is two files of one name in a directory `mails`:

    welcome.txt    Subject: Welcome, {{ name }}          the first line, then an empty one, then the text
                   <empty>
                   Hello {{ name }}, confirm your address: {{ link }}
    welcome.html   <p>Hello {{ name }}, ...</p>          not needed; everything that is put into it is escaped

Subject and text are rendered apart, so no value can end the subject and go on as something else: control characters in it become blanks. A name that a
template uses and that has no value is an error. Templates may include and extend others of the directory. A directory is looked through before the one
behind it: so an application replaces templates that come with svc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from jinja2.loaders import split_template_path

from svc.mail.outbox import MAX_SUBJECT, OutgoingMail

DIRECTORY = "mails"
"""Of an application: where its templates are."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}(?:/[A-Za-z0-9_-]{1,100})?", re.ASCII)
_SUBJECT = re.compile(r"subject:[ \t]*([^\r\n]*)(?:\r?\n|$)", re.IGNORECASE)
_SUBJECT_OF = ".subject"  # behind the name of a text: its subject


class TemplateFault(Exception):
    """A template that is not there, or cannot be used: a defect of the application."""


@dataclass(frozen=True, slots=True)
class RenderedMail:
    """What a template makes of values. `html` None: the template has no HTML."""

    subject: str
    text: str
    html: str | None

    def to(self, address: str) -> OutgoingMail:
        return OutgoingMail(address, self.subject, self.text, self.html)


def render(template: str, values: Mapping[str, object], *directories: Path | None) -> RenderedMail:
    """`directories`: with templates, those of the application first; None is none. Values are objects that templates may read.

    Raises TemplateFault, and what the template and its values raise, such as `jinja2.UndefinedError`.
    """
    environment = _environment(tuple([directory for directory in directories if directory is not None]))
    subject, text, html = _parts(environment, template)
    return RenderedMail(
        one_line(subject(values)),
        text(values).lstrip("\r\n"),
        None if html is None else html(values),
    )


def compile_template(template: str, *directories: Path | None) -> None:
    """Read and compile the files of a template, so that `render` does not have to: that takes some milliseconds. On any thread. Raises TemplateFault."""
    _parts(_environment(tuple([directory for directory in directories if directory is not None])), template)


def one_line(text: str) -> str:
    """A subject: in one line, without control characters, of MAX_SUBJECT characters at most.

    >>> one_line(" Welcome,\\r\\nBcc: eve@example.org\\0 ")
    'Welcome, Bcc: eve@example.org'
    """
    printed = "".join([character if character.isprintable() else " " for character in text[: 4 * MAX_SUBJECT]])
    line = " ".join(printed.split())
    return line if len(line) <= MAX_SUBJECT else f"{line[: MAX_SUBJECT - 3]}..."


Part = Callable[[Mapping[str, object]], str]


def _parts(environment: Environment, template: str) -> tuple[Part, Part, Part | None]:
    if not isinstance(template, str) or not _NAME.fullmatch(template):
        raise TemplateFault(f"{str(template)[:100]!r} is no name of a template: letters, digits, _ and -")
    try:
        subject, text = environment.get_template(f"{template}.txt{_SUBJECT_OF}"), environment.get_template(f"{template}.txt")
    except TemplateNotFound as error:
        if error.name not in (f"{template}.txt{_SUBJECT_OF}", f"{template}.txt"):
            raise
        loader: Any = environment.loader
        places = " or ".join(str(directory / f"{template}.txt") for directory in loader.directories) or "no directory"
        raise TemplateFault(f"there is no template of a mail '{template}': {places}") from None
    try:
        html = environment.get_template(f"{template}.html").render
    except TemplateNotFound as error:
        if error.name != f"{template}.html":
            raise
        html = None
    return subject.render, text.render, html


class MailLoader(BaseLoader):
    """Files of several directories, the first that has one; of a text its subject and the rest apart."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self.directories = directories

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        name = template.removesuffix(_SUBJECT_OF)
        parts = split_template_path(name)  # raises TemplateNotFound for what leads out of the directory
        found = self._find(parts)
        if found is None:
            raise TemplateNotFound(template)
        path, _ = found
        try:
            source = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateFault(f"{path} cannot be read: {error}") from None
        subject = _SUBJECT.match(source)
        if template != name:
            if subject is None:
                raise TemplateFault(f"{path}: the first line of a mail is its subject, 'Subject: Welcome'")
            source = subject[1]
        elif subject is not None:
            source = "\n" + source[subject.end() :]  # lines keep their numbers
        return source, str(path), lambda: self._find(parts) == found

    def _find(self, parts: list[str]) -> tuple[Path, int] | None:
        for directory in self.directories:
            path = directory.joinpath(*parts)
            changed = _changed(path)
            if changed is not None:
                return path, changed
        return None


def _changed(path: Path) -> int | None:
    """When a file was changed, ns; None: there is none."""
    try:
        return path.stat().st_mtime_ns if path.is_file() else None
    except OSError:
        return None


@lru_cache(maxsize=100)
def _environment(directories: tuple[Path, ...]) -> Environment:
    return Environment(
        loader=MailLoader(directories),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
