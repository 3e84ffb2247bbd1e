"""Settings as people see them, and what a form about one sends (spec: console §13)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.config import Setting
from svc.config.document import migrate_names, set_value
from svc.config.editing import is_reloaded
from svc.config.reference import default_text, has_effect, kind_text
from svc.config.settings import SECRETS, SETTINGS, SWITCHED_OFF
from svc.config.values import is_given, lookup
from svc.errors import ClientError
from svc.pages.cells import cell_of, shortened

HIDDEN = SECRETS | {"replication.credentials"}
TEXTS = frozenset({"string", "table", "path", "mailbox", "duration", "size", "rotation size", "rotation interval"})
NUMBERS = frozenset({"integer", "number", "port"})
LISTS = frozenset({"strings", "paths", "hosts", "addresses", "networks"})
CHOICES = frozenset({"choice", "level"})

_IN_A_LIST = "is a list in the file: edit it there."
_LONGEST = 400  # characters of a value in the list
_LONGEST_SENT = 1 << 16  # characters of a value in a form


@dataclass(slots=True)
class ShownSetting:
    """`value`: now, `source`: where it comes from ("default", "file", "start"). `stored`: in the file, if that is another one; `waits`: it takes effect at
    the next restart. `refused`: why it cannot be set here, "": it can."""

    name: str
    kind: str
    default: str
    sentence: str
    value: str
    source: str
    stored: str
    waits: bool
    is_reloaded: bool
    refused: str


class ShownSettings:
    """`file`: what is stored, `run`: what is in effect since the start, `start`: of that what the environment and options have set; as `get_configuration`
    answers them."""

    def __init__(self, file: Mapping[str, Any], run: Mapping[str, Any], start: Mapping[str, Any]) -> None:
        self._file, self._run, self._start = _today(file), _today(run), _today(start)

    def all(self) -> list[ShownSetting]:
        return [self.shown(row) for row in SETTINGS if has_effect(row)]

    def stored(self, row: Setting) -> Any:
        """As it is in the file; None: not given."""
        return lookup(self._file, row.name.split("."))

    def is_stored(self, row: Setting) -> bool:
        return is_given(self._file, row.name.split("."))

    def shown(self, row: Setting) -> ShownSetting:
        path = row.name.split(".")
        is_of_start = is_given(self._start, path)
        stored = (is_given(self._file, path), lookup(self._file, path))
        running = (is_given(self._run, path), lookup(self._run, path))
        reloads = is_reloaded(row.name)
        now = running if is_of_start or not reloads else stored
        differs = stored != running and (is_of_start or not reloads)
        refused = self._refused(row)
        return ShownSetting(
            row.name,
            kind_text(row).replace("`", ""),
            _default(row),
            row.sentence.replace("`", ""),
            "in the file" if refused.endswith(_IN_A_LIST) else self._text(row, *now),
            "start" if is_of_start else "file" if now[0] else "default",
            self._text(row, *stored) if differs else "",
            differs and not is_of_start,
            reloads,
            refused,
        )

    @staticmethod
    def _text(row: Setting, is_set: bool, value: Any) -> str:
        if not is_set or (value is None and not row.null):
            return _default(row)
        if row.name in HIDDEN and value is not None:
            return "***"
        return cell_of(value, _LONGEST).text

    def _refused(self, row: Setting) -> str:
        if row.name == "rootPath":
            return "It is chosen at the start: stop the server, move the directory, start with --ROOTPATH."
        if "<" in row.name:
            return "It is one for each database: set it in the file."
        path = row.name.split(".")
        for length in range(1, len(path)):
            if isinstance(lookup(self._file, path[:length]), list):
                return f"{'.'.join(path[:length])} {_IN_A_LIST}"
        return ""


def _default(row: Setting) -> str:
    return "none" if row.default is None else default_text(row).replace("`", "")


def _today(document: Mapping[str, Any]) -> dict[str, Any]:
    """With the names of today, and the values that a section which is switched off has."""
    found = migrate_names(dict(document))[0]
    for section, values in SWITCHED_OFF.items():
        if found.get(section) is False:
            for name, value in values.items():
                set_value(found, name, value)
    return found


# --- forms -------------------------------------------------------------------------------------------------------------------------------


def control_of(row: Setting) -> str:
    """What its form has: "bool", "choice", "number", "secret", "text", "lines" or "document"."""
    if row.name in HIDDEN:
        return "secret"
    if row.kind == "bool":
        return "bool"
    if row.kind in CHOICES:
        return "choice"
    if row.kind in NUMBERS:
        return "number"
    return "lines" if row.kind in LISTS else "text" if row.kind in TEXTS else "document"


def typed_text(row: Setting, value: Any) -> str:
    """A value as it is typed into the form.

    >>> from svc.config.settings import BY_NAME
    >>> typed_text(BY_NAME["http.port"], 80), typed_text(BY_NAME["tls.hosts"], ["a", "b"]), typed_text(BY_NAME["tls.hosts"], [None])
    ('80', 'a\\nb', '[null]')
    """
    control = control_of(row)
    if value is None or control == "secret":
        return ""
    if control == "lines":
        items = value if isinstance(value, list) else [value]
        if items and all(
            isinstance(item, str) and item.strip() == item and item and item[0] not in "[{" and "\n" not in item for item in items
        ):
            return "\n".join(items)
    if isinstance(value, str) and control != "document":
        return value
    if control == "document" and isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False)


def sent_value(row: Setting, text: str) -> Any:
    """What `set_configuration` is to be sent for what was typed in; its own conversion of texts does the rest. Raises ClientError."""
    control = control_of(row)
    text = text.replace("\r\n", "\n")
    if not text.strip() and (row.null or control in ("document", "bool", "choice")):
        return None
    if len(text) > _LONGEST_SENT:
        raise ClientError(f"'{row.name}' is longer than {_LONGEST_SENT} characters")
    if control == "lines" and text.lstrip()[:1] not in ("[", "{"):
        return [line.strip() for line in text.split("\n") if line.strip()]
    if control in ("lines", "document"):
        return _document(row, text)
    return text


def _document(row: Setting, text: str) -> Any:
    """JSON, or YAML, of which it is a part."""
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ClientError(f"'{row.name}' is neither JSON nor YAML: {shortened(str(error), 300)}") from None
