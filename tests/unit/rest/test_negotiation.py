import pytest

from svc.errors import NotAcceptable
from svc.rest.negotiation import JSON, Writer, choose_writer, parse_accept

CBOR = Writer("application/cbor", 1.0)
CSV = Writer("text/csv", 0.1)
PLAIN = Writer("text/plain", 0.2)
WRITERS = (JSON, CBOR, CSV, PLAIN)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("APPLICATION/JSON; charset=utf-8", JSON),
        ("application/json, application/cbor", CBOR),  # http §7.1: highest product of both qualities
        ("application/json, */*", JSON),
        ("application/cbor;q=0.5, application/json", JSON),
        ("text/*", PLAIN),
        ("application/*", CBOR),
        ("application/*, application/cbor;q=0", JSON),
        ("text/html, */*;q=0.1", JSON),
        ("application/json;q=abc", JSON),
    ],
)
def test_the_highest_product_wins(accept: str | None, expected: Writer) -> None:
    assert choose_writer(accept, WRITERS) is expected


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0, text/html", "*/*;q=0", "image/*"])
def test_nothing_fits(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json, application/cbor"):
        choose_writer(accept, WRITERS)


def test_parse_accept_skips_empty_parts_and_clamps_quality() -> None:
    assert parse_accept(" a/b ; q=2 ,, C/D;x=1;q=-1") == [("a/b", 1.0), ("c/d", 0.0)]
