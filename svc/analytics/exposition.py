"""The text formats that monitoring systems read: Prometheus 0.0.4 and OpenMetrics 1.0 (spec: analytics §10). Pure.

A `Family` is one metric with all its series. Each series writes its own lines at once, because a histogram whose buckets and count are of different
moments is invalid. The formats differ in three places: OpenMetrics calls a counter by its name without `_total`, knows units, creation times and
info metrics, and ends with `# EOF`.

The families and writers of `prometheus-client` would do, in pieces of 20 series whose heads are taken off again. They take 87 us (OpenMetrics 144 us) for
a histogram instead of 3 us, since each of its 16 samples has a dict of labels, and 13 MB of memory: 0.3 s of the loop for each scrape of 2,000 label sets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Final, Protocol

COUNTER, GAUGE, HISTOGRAM, SUMMARY, INFO = "counter", "gauge", "histogram", "summary", "info"

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of all histograms, in seconds."""

_SERIES_AT_ONCE = 20  # rendered in one step: about 0.2 ms of histograms
_OPENMETRICS_VERSIONS = frozenset(("", "0.0.1", "1.0.0"))
_TEXT_VERSIONS = frozenset(("", "0.0.4"))
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_WITH_LABELS = re.compile(rb"^([a-zA-Z0-9_]+)\{", re.MULTILINE)
_WITHOUT_LABELS = re.compile(rb"^([a-zA-Z0-9_]+) ", re.MULTILINE)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


class Series(Protocol):
    """One label set of a family."""

    def text(self, name: str, openmetrics: bool) -> str:
        """Its lines. `name`: of the family."""


class Counter:
    """A sum that only grows. `created`: when it began, in seconds since 1970; None: not known."""

    __slots__ = ("created", "labels", "value")

    def __init__(self, labels: str, created: float | None, value: float = 0) -> None:
        self.labels = labels
        self.created = created
        self.value = value

    def text(self, name: str, openmetrics: bool) -> str:
        labels = _braces(self.labels)
        return f"{name}_total{labels} {number_text(self.value)}\n{_created(name, labels, self.created) if openmetrics else ''}"


class YesNoCounters:
    """How often the answer was yes, and how often no. `label`: its name, whose value is `true` or `false`."""

    __slots__ = ("_no", "_yes")

    def __init__(self, labels: str, label: str, created: float) -> None:
        before = f"{labels}," if labels else ""
        self._yes = Counter(f'{before}{label}="true"', created)
        self._no = Counter(f'{before}{label}="false"', created)

    def add(self, yes: int, count: int) -> None:
        """Count answers: `yes` of `count` are yes."""
        self._yes.value += yes
        self._no.value += count - yes

    def text(self, name: str, openmetrics: bool) -> str:
        return self._yes.text(name, openmetrics) + self._no.text(name, openmetrics)


class Gauge:
    """A value as it is now."""

    __slots__ = ("labels", "value")

    def __init__(self, labels: str, value: float) -> None:
        self.labels = labels
        self.value = value

    def text(self, name: str, openmetrics: bool) -> str:
        return f"{name}{_braces(self.labels)} {number_text(self.value)}\n"


class Info:
    """What something is, in labels."""

    __slots__ = ("labels",)

    def __init__(self, labels: str) -> None:
        self.labels = labels

    def text(self, name: str, openmetrics: bool) -> str:
        return f"{name}_info{_braces(self.labels)} 1\n"


class Summary:
    """How many values there were, and their sum. `total` is None once a negative value has come: a sum may never go down."""

    __slots__ = ("count", "created", "labels", "total")

    def __init__(self, labels: str, created: float) -> None:
        self.labels = labels
        self.created = created
        self.count = 0
        self.total: float | None = 0.0

    def add(self, values: Sequence[float], scale: float) -> None:
        """`scale`: what a value is multiplied with to be in the unit of the family."""
        total = sum_of(values)
        if not isfinite(total):
            values = finite(values)
            total = sum_of(values)
        self.count += len(values)
        if self.total is not None:
            self.total = None if values and min(values) < 0 else self.total + total * scale

    def text(self, name: str, openmetrics: bool) -> str:
        labels = _braces(self.labels)
        total = "" if self.total is None else f"{name}_sum{labels} {number_text(self.total)}\n"
        created = _created(name, labels, self.created) if openmetrics else ""
        return f"{name}_count{labels} {self.count}\n{total}{created}"


class Histogram:
    """How many values were up to each of BOUNDS. A value below 0 counts as 0."""

    __slots__ = ("counts", "created", "labels", "total")

    def __init__(self, labels: str, created: float) -> None:
        self.labels = labels
        self.created = created
        self.counts = [0] * (len(BOUNDS) + 1)  # each for itself; the last one: beyond the last bound
        self.total = 0.0  # seconds

    def add(self, values: Sequence[float], scale: float) -> None:
        """`scale`: seconds in one unit of the values."""
        ordered = sorted(finite(values))
        if not ordered:
            return
        if ordered[0] < 0:
            ordered = [max(value, 0.0) for value in ordered]
        self.total += sum_of(ordered) * scale
        position = 0
        for index, bound in enumerate(BOUNDS):
            up_to = bisect_right(ordered, bound / scale, position)
            self.counts[index] += up_to - position
            position = up_to
        self.counts[-1] += len(ordered) - position

    def text(self, name: str, openmetrics: bool) -> str:
        labels = self.labels
        start = f"{name}_bucket{{{labels}{',' if labels else ''}le="
        lines = []
        count = 0
        for bound, found in zip(_BOUND_TEXTS, self.counts, strict=True):
            count += found
            lines.append(f"{start}{bound}}} {count}\n")
        labels = _braces(labels)
        lines.append(f"{name}_count{labels} {count}\n{name}_sum{labels} {number_text(self.total)}\n")
        if openmetrics:
            lines.append(_created(name, labels, self.created))
        return "".join(lines)


_BOUND_TEXTS = (*(f'"{bound}"' for bound in BOUNDS), '"+Inf"')


@dataclass(slots=True)
class Family:
    """A metric. `name`: without the suffix of its samples (`_total`, `_info`). `unit`: `seconds` or `bytes`, which `name` ends with."""

    name: str
    kind: str
    help: str
    series: Sequence[Series]
    unit: str = ""

    def head(self, openmetrics: bool) -> str:
        """The lines about the metric itself."""
        name, kind = self.name, self.kind
        if openmetrics:
            unit = f"# UNIT {name} {self.unit}\n" if self.unit else ""
            return f"# TYPE {name} {kind}\n{unit}# HELP {name} {help_text(self.help).replace(chr(34), chr(92) + chr(34))}\n"
        if kind == COUNTER:
            name += "_total"
        elif kind == INFO:
            name, kind = name + "_info", GAUGE
        return f"# HELP {name} {help_text(self.help)}\n# TYPE {name} {kind}\n"


def iter_lines(families: Iterable[Family], openmetrics: bool) -> Iterator[tuple[bytes, bytes]]:
    """(head, lines) of each family in short steps; a long one comes in several pieces, each with its head. Families without series are left out. Each
    piece is of one moment."""
    for family in families:
        for start in range(0, len(family.series), _SERIES_AT_ONCE):
            lines = [series.text(family.name, openmetrics) for series in family.series[start : start + _SERIES_AT_ONCE]]
            yield family.head(openmetrics).encode(), "".join(lines).encode()


def iter_text(families: Iterable[Family], openmetrics: bool) -> Iterator[bytes]:
    """The body in short steps."""
    last = b""
    for head, lines in iter_lines(families, openmetrics):
        yield lines if head == last else head + lines
        last = head
    if openmetrics:
        yield END_OF_OPENMETRICS


END_OF_OPENMETRICS: Final = b"# EOF\n"


def with_label(lines: bytes, name: str, value: str) -> bytes:
    r"""The lines of samples with one more label.

    >>> with_label(b'a_total 1\nb{c="{ d"} 2\n', "instance", "0")
    b'a_total{instance="0"} 1\nb{instance="0",c="{ d"} 2\n'
    """
    label = label_text([(name, value)]).encode()
    return _WITHOUT_LABELS.sub(rb"\1{%s} " % label, _WITH_LABELS.sub(rb"\1{%s," % label, lines))


def merge_families(parts: Iterable[Sequence[tuple[bytes, bytes]]]) -> list[bytes]:
    """Of several sources, each as of `iter_lines`, the pieces of one text in which the lines of a family are together. A family that a source knows as
    something else than a source before it does, is left out of what that one says."""
    found: dict[bytes, tuple[bytes, list[bytes]]] = {}  # by name
    for part in parts:
        for head, lines in part:
            known, pieces = found.setdefault(family_name(head), (head, []))
            if known == head:
                pieces.append(lines)
    return [piece for head, (first, *rest) in found.values() for piece in (head + first, *rest)]


def family_name(head: bytes) -> bytes:
    """As the head of a family has it: in the text format that of a counter ends with `_total`."""
    return head.split(b" ", 3)[2]


# --- texts ------------------------------------------------------------------------------------------------------------------------------


def label_text(pairs: Iterable[tuple[str, str | None]]) -> str:
    r"""Labels as they stand between the braces. None and "" are left out: to the readers an empty label is no label.

    >>> label_text([("path", 'a"b\\c'), ("method", None)])
    'path="a\\"b\\\\c"'
    """
    return ",".join([f'{name}="{encodable(value).translate(_LABEL_ESCAPES)}"' for name, value in pairs if value])


def encodable(text: str) -> str:
    """Lone surrogates replaced: a string of an application may have them, UTF-8 does not.

    >>> encodable("a\\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode()


def help_text(text: str) -> str:
    """One line."""
    return encodable(text).translate(_HELP_ESCAPES)


def number_text(value: float) -> str:
    """
    >>> number_text(5), number_text(0.25), number_text(float("inf"))
    ('5', '0.25', '+Inf')
    """
    return "+Inf" if value == inf else repr(value)


def valid_name(text: str) -> str:
    """Letters, digits and `_`, each other character as `_`.

    >>> valid_name("pricing-time.ms")
    'pricing_time_ms'
    """
    return _NOT_IN_NAMES.sub("_", text)


def _braces(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _created(name: str, labels: str, created: float | None) -> str:
    return "" if created is None else f"{name}_created{labels} {number_text(created)}\n"


# --- numbers ----------------------------------------------------------------------------------------------------------------------------


def finite(values: Sequence[float]) -> Sequence[float]:
    """`values` without those that are not finite, or do not fit into a float."""
    return values if isfinite(sum_of(values)) else [value for value in values if _is_finite(value)]


def sum_of(values: Sequence[float]) -> float:
    """The sum as a float; infinite if it does not fit into one."""
    try:
        return float(sum(values))
    except OverflowError:  # of a very large integer
        return inf


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        return False


# --- negotiation ------------------------------------------------------------------------------------------------------------------------


def accepts_openmetrics(accept: str | None) -> bool:
    """Whether the client prefers OpenMetrics to the text format: of the ranges in `Accept`, by falling quality, the first that is one of the two decides.
    What cannot be read, and wildcards, mean the text format.

    >>> accepts_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
    True
    >>> accepts_openmetrics("*/*"), accepts_openmetrics("application/openmetrics-text;version=2.0.0")
    (False, False)
    """
    found: list[tuple[float, bool]] = []
    for part in (accept or "").split(","):
        name, *texts = [piece.strip().lower() for piece in part.split(";")]
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in (text.partition("=") for text in texts)}
        version = parameters.get("version", "")
        is_openmetrics = name == "application/openmetrics-text" and version in _OPENMETRICS_VERSIONS
        if is_openmetrics or (name == "text/plain" and version in _TEXT_VERSIONS):
            found.append((_quality(parameters.get("q", "1")), is_openmetrics))
    found = [each for each in found if each[0] > 0]
    return bool(found) and max(found, key=lambda each: each[0])[1]


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
