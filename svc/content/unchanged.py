"""Values of a body that repeat the stored record as GET has shown it are the stored values (spec: http §7.5).

A client may PUT the body of a GET, which has less type information than the record: JSON has no dates, no bytes and no sets, a CSV cell and the field of
a form are strings, a blob is shown by its content without its type, or by a description. So a value equal to the encoded form of the stored one is
replaced by the stored one. That is decided inside the transaction, by the record that is replaced or changed (`Decide`). Values of types that the
content type itself has are not compared.

    restore_native   CBOR, MessagePack: blobs
    restore_json     JSON, NDJSON: blobs, dates, bytes, sets, keys that are not strings
    restore_cells    CSV: the same, and JSON in a cell
    restore_loaded   CSV of a bulk load, which converts cells without a declared type by their characters
    restore_fields   forms: everything, because all fields are strings
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from svc.content.content_type import ContentType
from svc.content.form_type import field_texts
from svc.content.json_type import encode_json
from svc.content.values import json_form, text_key
from svc.errors import ValidationError
from svc.store.blobs import Blob, BlobDescription
from svc.store.schema import Attribute
from svc.store.values.conversion import printable
from svc.store.values.records import MISSING, iso_text, to_ms
from svc.store.writing.write_set import Decide

Record = dict[str, Any]
Restore = Decide
"""(the record or the changes to write, the stored record or None) -> the same with unchanged values as stored. Changes neither of the two."""
Keep = Callable[[Any, Any], Any]
"""(stored value, given value) -> the stored one where the other is its form, else the given one, or a copy of it with unchanged parts restored."""

_SAME_IN_JSON: frozenset[type] = frozenset((str, int, float, bool, type(None)))
_SAME_IN_NATIVE = _SAME_IN_JSON | {bytes, datetime, set}
_SAME_IN_CELLS: frozenset[type] = frozenset((str, int, bool, type(None)))
_SAME_IN_LOADS: frozenset[type] = frozenset((int, bool, type(None)))
_NONE: frozenset[type] = frozenset()
_JSON_IN_CELLS = frozenset((list, dict, set, Blob))


def _restored(new: Record, old: Mapping[str, Any], keep: Keep, same: frozenset[type]) -> Record:
    """`same`: types of stored values that the content type reads back as such."""
    changed = {}
    for name, was in old.items():
        if type(was) not in same:
            given = new.get(name, MISSING)
            if given is not MISSING:
                kept = keep(was, given)
                if kept is not given:
                    changed[name] = kept
    return new | changed if changed else new


def restore_of(reader: ContentType | None) -> Restore:
    """For the values of bodies that `reader` has read; None: of JSON without a type."""
    if reader is None:
        return restore_json
    found = _BY_NAME.get(reader.name)
    return found or (restore_native if reader.native and not reader.text_bodies else restore_json)


def restore_native(new: Record, old: Mapping[str, Any] | None) -> Record:
    if old is None or _SAME_IN_NATIVE.issuperset(map(type, old.values())):
        return new
    return _restored(new, old, keep_native, _SAME_IN_NATIVE)


def restore_json(new: Record, old: Mapping[str, Any] | None) -> Record:
    if old is None or _SAME_IN_JSON.issuperset(map(type, old.values())):
        return new
    return _restored(new, old, keep_json, _SAME_IN_JSON)


def restore_cells(new: Record, old: Mapping[str, Any] | None) -> Record:
    if old is None or _SAME_IN_CELLS.issuperset(map(type, old.values())):
        return new
    return _restored(new, old, keep_cell, _SAME_IN_CELLS)


def restore_loaded(autocast: Callable[[str], object]) -> Restore:
    """`autocast`: how the load converts a cell without a declared type."""

    def keep(was: Any, given: Any) -> Any:
        if type(was) is str:
            return was if type(given) is not str and _is_same(autocast(was), given) else given
        return keep_cell(was, given)

    def restore(new: Record, old: Mapping[str, Any] | None) -> Record:
        if old is None or _SAME_IN_LOADS.issuperset(map(type, old.values())):
            return new
        return _restored(new, old, keep, _SAME_IN_LOADS)

    return restore


def restore_fields(new: Record, old: Mapping[str, Any] | None) -> Record:
    return new if old is None else _restored(new, old, keep_field, _NONE)


def restore_row(columns: frozenset[str], declared: Mapping[str, Attribute], new: Record, old: Mapping[str, Any] | None) -> Record:
    """For a CSV row that replaces a record. An empty cell may be null; and what GET gives of an open table has columns for all that is declared and for
    the further properties of its first record alone, so that other records would lose theirs: ValidationError."""
    if old is None:
        return new
    new = _restored(new, old, keep_cell, _SAME_IN_CELLS)
    nulls: Record = {}
    for name, was in old.items():
        if name not in new:
            if was is None:
                nulls[name] = None
            elif name not in columns and name not in declared and columns.issuperset(a.name for a in declared.values() if a.stored):
                raise ValidationError(
                    f"The CSV has no column for the property {printable(name)}, which the record has: an empty cell removes it"
                )
    return new | nulls if nulls else new


# --- one value ---------------------------------------------------------------------------------------------------------------------------


def keep_native(was: Any, given: Any) -> Any:
    """See `Keep`. Blobs alone have no form of their own in CBOR and MessagePack."""
    kind = type(was)
    if kind is Blob:
        if type(given) is bytes and was.has_content(given):
            return was
        return _keep_blob(was, given)
    return _keep_parts(was, given, keep_native)


def keep_json(was: Any, given: Any) -> Any:
    """See `Keep`."""
    kind = type(was)
    if kind in _SAME_IN_JSON:
        return given
    if kind is Blob:
        return was if type(given) is str and was.has_text(given) else _keep_blob(was, given)
    if kind is datetime:
        return was if type(given) is str and given == iso_text(to_ms(was)) else given
    if kind is bytes:
        return was if type(given) is str and given == b64encode(was).decode() else given
    if kind is set:
        return was if type(given) is list and _as_set(given) == _as_set(was) else given
    if kind is dict and type(given) is dict and not all(type(key) is str for key in was):
        return _keep_keys(was, given)
    return _keep_parts(was, given, keep_json)


def _as_set(elements: Collection[Any]) -> list[bytes]:
    """Elements as JSON, so that their order does not count."""
    return sorted([b"" if type(element) is BlobDescription else encode_json(element) for element in elements])


def _keep_blob(was: Blob, given: Any) -> Any:
    kind = type(given)
    if kind is BlobDescription:
        return was if given.describes(was) else given
    if kind is Blob:
        return was if given.replaces_itself_in(was) else given
    return given


def _keep_parts(was: Any, given: Any, keep: Keep) -> Any:
    """Of an object its members, of a list its elements."""
    kind = type(was)
    if kind is not type(given):
        return given
    changed: dict[Any, Any] = {}
    if kind is dict:
        if _SAME_IN_JSON.issuperset(map(type, was.values())):
            return given
        for name, member in given.items():
            part = was.get(name, MISSING)
            if part is not MISSING and (kept := keep(part, member)) is not member:
                changed[name] = kept
        return given | changed if changed else given
    if kind is list:
        if _SAME_IN_JSON.issuperset(map(type, was)):
            return given
        if BlobDescription in map(type, given):
            changed |= _described(was, given)
        for index, (part, element) in enumerate(zip(was, given, strict=False)):
            if type(element) is not BlobDescription and (kept := keep(part, element)) is not element:
                changed[index] = kept
        return [changed.get(index, element) for index, element in enumerate(given)] if changed else given
    return given


def _described(was: list[Any], given: list[Any]) -> dict[int, Blob]:
    """The blobs that descriptions in a list stand for, by the index of the description.

    Blobs of one type and size have one description. It says which of them is meant only if they are all still at their indexes, or there is but one.
    """
    stored: dict[tuple[str, int | None], list[int]] = {}
    for index, part in enumerate(was):
        if type(part) is Blob:
            stored.setdefault((part.type, part.size), []).append(index)
    asked: dict[tuple[str, int | None], list[int]] = {}
    for index, element in enumerate(given):
        if type(element) is BlobDescription:
            asked.setdefault((element.content_type, element.size), []).append(index)
    found = {}
    for description, indexes in asked.items():
        those = stored.get(description, [])
        if those == indexes or (len(those) == 1 == len(indexes)):
            found.update({index: was[that] for index, that in zip(indexes, those, strict=True)})
    return found


def _keep_keys(was: Mapping[Any, Any], given: Mapping[str, Any]) -> Any:
    """JSON shows keys that are not strings as strings."""
    keys = {text_key(key): key for key in was}
    if len(keys) < len(was):  # two keys with the same string: ambiguous
        return given
    return {keys.get(name, name): keep_json(was[keys[name]], member) if name in keys else member for name, member in given.items()}


def keep_cell(was: Any, given: Any) -> Any:
    """See `Keep`. A quoted cell without a declared type is a string."""
    kind = type(was)
    if kind is float:
        return was if type(given) is int and given == was else given
    if type(given) is str and kind in _JSON_IN_CELLS:
        if kind is Blob and was.has_text(given):
            return was
        form = json_form(was)
        return was if type(form) is not str and given == encode_json(form).decode() else given
    return keep_json(was, given)


def keep_field(was: Any, given: Any) -> Any:
    """See `Keep`. A field that comes once may be a list of one."""
    texts = list(map(_field_text, given if type(given) is list else [given]))
    if None not in texts:
        return was if (texts or [""]) == field_texts(was) else given
    kept = keep_cell(was, given)
    if kept is not was and type(kept) is list and type(was) is list and len(kept) == len(was):
        return [
            part if text is not None and [text] == field_texts(part) else element
            for part, text, element in zip(was, texts, kept, strict=True)
        ]
    return kept


def _field_text(given: Any) -> str | None:
    """The field that a value was read from, where it is text or of an empty one; None: it has a type."""
    if type(given) is str:
        return given
    is_empty = given is None or given == b"" or (type(given) is Blob and given.is_bare and given.size == 0)
    return "" if is_empty else None


def _is_same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


_BY_NAME: dict[str, Restore] = {"text/csv": restore_cells, "application/x-www-form-urlencoded": restore_fields}
