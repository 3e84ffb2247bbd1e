"""The answer to a statement, read while it arrives: rows in batches, or the body of a write. However many rows there are, few are in memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any

from svc.cli.client import Answer, Unreachable

LONG_ROW = 1 << 16  # characters: a row that is longer and not complete is not looked at again before twice as many are there
MOST_DIGITS = 4300  # of an integer that Python reads
_SPACE = " \t\r\n"
_BETWEEN_ROWS = f",{_SPACE}"

Row = dict[str, Any]


class StatementFailed(Exception):
    """Why a statement has no result, in the words of the server. `position`: in its text, characters from 0; None if that is not known."""

    def __init__(self, text: str, position: int | None = None) -> None:
        super().__init__(text)
        self.position = position


def _integer(text: str) -> int | str:
    return int(text) if len(text) < MOST_DIGITS else text


_decode = json.JSONDecoder(parse_int=_integer).raw_decode


class StatementAnswer:
    """The rows of an answer in JSON, once. `body`: what was answered instead of rows; None until all has been read."""

    def __init__(self, answer: Answer, copy: Callable[[bytes], object] | None = None) -> None:
        """`copy`: gets the bytes as they are, before they are read."""
        self._answer = answer
        self._copy = copy
        self._text = ""
        self._at = 0
        self._wanted = 0  # characters, before it is worth to look again
        self._names: tuple[str, ...] | None = None  # of the columns
        self.body: Any = None

    def batches(self) -> Iterator[list[Row]]:
        """Raises StatementFailed for a failure behind some rows, Unreachable for an answer that breaks off or is no JSON."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        is_array = None
        for piece in self._answer.chunks():
            if self._copy is not None:
                self._copy(piece)
            self._text = self._text[self._at :] + decoder.decode(piece)
            self._at = 0
            if is_array is None:
                first = self._skip(_SPACE)
                if not first:
                    continue
                is_array = first == "["
                self._at += is_array
            if is_array and len(self._text) >= self._wanted:
                yield from self._rows()
        if not is_array:
            self.body = self._value(self._text)
            return
        yield from self._rows()
        if self._text[self._at :].rstrip(_SPACE) != "]":
            raise Unreachable("The answer is not JSON, or its end is missing")

    def _rows(self) -> Iterator[list[Row]]:
        """Those that have arrived as a whole, if there are any, as one list."""
        found: list[Row] = []
        failure = None
        self._wanted = 0
        while failure is None and self._skip(_BETWEEN_ROWS) == "{":
            try:
                row, self._at = _decode(self._text, self._at)
            except RecursionError:
                failure = "A row is nested too deeply to be shown"
                break
            except ValueError:  # more has to come, or it is wrong: the end will tell
                left = len(self._text) - self._at
                self._wanted = 2 * left if left > LONG_ROW else 0
                break
            names = tuple(row)
            if names == self._names or self._names is None:
                self._names = names
            elif (
                isinstance(row.get("error"), str) and "error" not in self._names
            ):  # what goes wrong in the middle of an answer (spec: http §8)
                failure = row["error"]
                break
            found.append(row)
        if found:
            yield found
        if failure is not None:
            raise StatementFailed(failure)

    def _skip(self, characters: str) -> str:
        """Go to the next character that is none of these, and return it; "" if there is none yet."""
        text, at = self._text, self._at
        while at < len(text) and text[at] in characters:
            at += 1
        self._at = at
        return text[at : at + 1]

    def _value(self, text: str) -> Any:
        try:
            return json.loads(text, parse_int=_integer)
        except RecursionError:
            raise StatementFailed("The answer is nested too deeply to be shown") from None
        except ValueError as error:
            kind = self._answer.content_type or "something unnamed"
            raise Unreachable(f"The answer is not JSON but {kind}: is this the operations port?") from error
