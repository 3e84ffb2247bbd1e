import pytest

from svc.content.content_type import ContentType
from svc.content.negotiation import choose, parse_accept


class Fake(ContentType):
    def __init__(self, name: str, q: float, writes: bool = True) -> None:
        self.name, self.q, self.writes = name, q, writes


JSON = Fake("application/json", 0.8)
CBOR = Fake("application/cbor", 1.0)
CSV = Fake("text/csv", 0.1)
PLAIN = Fake("text/plain", 0.2)
EVENTS = Fake("text/event-stream", 0.8, writes=False)
TWIN = Fake("application/x-twin", 1.0)
ANY = Fake("application/json", 0.5)
TYPES = [(kind.name, kind) for kind in (JSON, CBOR, CSV, PLAIN, EVENTS, TWIN)] + [("*/*", ANY)]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", ANY),
        (",", ANY),
        ("application/json", JSON),
        ("APPLICATION/JSON; charset=utf-8", JSON),
        ("application/json, application/cbor", CBOR),  # http §7.1: highest product of both qualities
        ("application/json, */*", JSON),
        ("application/cbor;q=0.5, application/json", JSON),
        ("application/cbor;q=0.8, application/json", JSON),  # a tie: the earlier entry
        ("application/x-twin, application/cbor", CBOR),
        ("text/*", PLAIN),
        ("application/*", CBOR),
        ("application/*, application/cbor;q=0", TWIN),
        ("text/plain;q=0, text/*", CSV),
        ("text/csv;q=0.1, text/*;q=0", CSV),
        ("text/html, */*;q=0.1", ANY),
        ("text/csv, */*;q=0.1", CSV),
        ("application/json;q=abc", JSON),
        ("application/json;q=nan", JSON),
        ("application/json;q=0, */*", CBOR),  # anything but JSON
        ("application/json;q=0, application/cbor;q=0, */*;q=0.5", TWIN),
        ("application/cbor, application/cbor;q=0", CBOR),  # said twice: the better one
        ("text/event-stream, */*;q=0.1", ANY),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", ANY),  # a browser
    ],
)
def test_the_highest_product_wins(accept: str, expected: ContentType) -> None:
    assert choose(accept, TYPES) == (expected, False)


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0, text/html", "*/*;q=0", "image/*", "text/event-stream", "json", "*"])
def test_nothing_fits(accept: str) -> None:
    assert choose(accept, TYPES) is None


def test_without_a_fallback_any_type_is_the_best_of_all() -> None:
    assert choose("*/*", TYPES[:-1]) == (CBOR, False)


def test_a_sequence_is_asked_for_by_the_range_that_decides() -> None:
    assert choose("application/cbor; sequence=true", TYPES) == (CBOR, True)
    assert choose('application/cbor;SEQUENCE="TRUE";q=0.9', TYPES) == (CBOR, True)
    assert choose("application/cbor;sequence=false, application/json;sequence=true", TYPES) == (CBOR, False)


def test_parse_accept_skips_empty_parts_and_clamps_quality() -> None:
    assert parse_accept(" a/b ; q=2 ,, C/D;x=1;q=-1") == [("a/b", 1.0, False), ("c/d", 0.0, False)]
