"""Text that arrives in pieces -> the objects of a JSON array, or objects one after the other as in NDJSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from svc.errors import ValidationError

MAX_RECORD = 1 << 21  # characters; it is read in one go
_SPACE = " \t\r\n"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode


class JsonRecordParser:
    """`feed` a piece of text, then take `records` until there are none; after the last piece, `check_end`.

    Raises ValidationError for what is no such text, with the number of the record.
    """

    def __init__(self) -> None:
        self._text = ""
        self._position = 0
        self._count = 0
        self._begun = False
        self._in_array = False
        self._ended = False  # behind the array
        self._needs_more = False
        self._line = 1  # of the last position to which lines were counted
        self._counted = 0  # that position
        self.lines: list[int] = []  # on which the records begin that were taken last, counted from 1

    def feed(self, text: str) -> None:
        self._count_lines()
        self._counted = 0
        self._text = self._text[self._position :] + text
        self._position = 0
        self._needs_more = False

    def records(self, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` records; none if more text is needed."""
        found: list[dict[str, Any]] = []
        self.lines = []
        while len(found) < limit and self._is_at_record():
            line = self._count_lines()
            try:
                record, self._position = _decode(self._text, self._position)
            except RecursionError:
                self._fail("is nested too deeply")
            except ValueError as error:
                if len(self._text) - self._position > MAX_RECORD:
                    self._fail(f"is not JSON, or is longer than {MAX_RECORD} characters: {error}")
                self._needs_more = True  # or it is wrong: the end will tell
                break
            self._count += 1
            found.append(record)
            self.lines.append(line)
        return found

    def _count_lines(self) -> int:
        """The line of the position."""
        self._line += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line

    def check_end(self) -> None:
        if self._needs_more or (self._in_array and not self._ended) or self._text[self._position :].strip(_SPACE):
            self._fail("is not JSON, or its end is missing")

    def _is_at_record(self) -> bool:
        """Go to the next record; False if it has not arrived yet, or there is no other."""
        if self._needs_more:
            return False
        text, position = self._text, self._position
        while position < len(text):
            character = text[position]
            if character in _SPACE or (character == "\ufeff" and not self._begun):
                position += 1
            elif self._ended:
                self._fail("follows the end of the array")
            elif not self._begun and character == "[":
                self._begun = self._in_array = True
                position += 1
            elif self._begun and character == ",":
                position += 1
            elif self._in_array and character == "]":
                self._ended = True
                position += 1
            elif character == "{":
                self._begun = True
                self._position = position
                return True
            else:
                self._fail("is not an object")
        self._position = position
        return False

    def _fail(self, what: str) -> NoReturn:
        line = self._count_lines()
        error = ValidationError(f"Record {self._count + 1} of the file {what}, in line {line}")
        error.faults = ({"index": self._count, "line": line, "message": error.message},)
        raise error
