import pytest

from svc.errors import PreconditionFailed
from svc.http.conditional import Tags, last_modified, matched_tag, parse_date, parse_tags, with_identities, write_precondition
from svc.messages import HeaderBlock

TAG = "Qnm3baqHtAA"
VERSION = 1_767_225_600_123.25  # 2026-01-01T00:00:00.123Z
AT, BEFORE, AFTER = "Thu, 01 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 23:59:59 GMT", "Thu, 01 Jan 2026 00:00:01 GMT"


def matched(coding: str | None = None, **fields: str) -> str | None:
    return matched_tag(HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]), TAG, VERSION, coding)


def unchanged(**fields: str) -> bool:
    return matched(**fields) is not None


@pytest.mark.parametrize("value", [f'"{TAG}"', f'W/"{TAG}"', f'"x", "{TAG}"', "*", f'"{TAG}" , "y"'])
def test_if_none_match_matches(value: str) -> None:
    assert unchanged(if_none_match=value)


@pytest.mark.parametrize(
    ("value", "coding", "expected"),
    [
        (f'"{TAG}-gzip"', "gzip", f"{TAG}-gzip"),
        (f'"{TAG}-gzip"', None, f"{TAG}-gzip"),
        (f'W/"{TAG}-br"', "gzip", f"{TAG}-br"),
        (f'"{TAG}"', "gzip", TAG),
        (f'"{TAG}", "{TAG}-br", "{TAG}-gzip"', "gzip", f"{TAG}-gzip"),
        (f'"{TAG}-br", "{TAG}"', "gzip", TAG),
        (f'"{TAG}-deflate"', "gzip", None),
        (f'"{TAG}-gzip-gzip"', "gzip", None),
        ('"Qnm3baqHtAB-gzip"', "gzip", None),
        ("*", "gzip", ""),
    ],
)
def test_the_tag_of_a_coding_matches_too(value: str, coding: str | None, expected: str | None) -> None:
    assert matched(coding, if_none_match=value) == expected


@pytest.mark.parametrize("value", [f'"{TAG}-gzip"', f'"x", "{TAG}-br"', f'"{TAG}-zstd"'])
def test_if_match_takes_the_tag_of_a_coding(value: str) -> None:
    assert not unchanged(if_match=value)
    precondition = write_precondition(HeaderBlock([("if-match", value)]))
    assert precondition is not None and TAG in (precondition.if_match or ())
    with pytest.raises(PreconditionFailed):
        unchanged(if_match=f"W/{value}" if "," not in value else '"x"')


def test_the_tag_of_a_view() -> None:
    """Of a caller who does not see all: it names the version for a write, and only its own view for a cache."""
    view = f"{TAG}.31323334"
    for value in (f'"{view}"', f'"{view}-br"'):
        precondition = write_precondition(HeaderBlock([("if-match", value)]))
        assert precondition is not None and TAG in (precondition.if_match or ())
        for tag in (TAG, view, f"{TAG}.00000000"):
            assert matched_tag(HeaderBlock([("if-match", value)]), tag, VERSION) is None
    read = HeaderBlock([("if-none-match", f'"{view}"')])
    assert [matched_tag(read, tag, VERSION) for tag in (view, TAG, f"{TAG}.00000000")] == [view, None, None]
    assert matched_tag(HeaderBlock([("if-none-match", f'"{TAG}"')]), view, VERSION) is None


def test_a_tag_that_looks_coded_is_itself_too() -> None:
    tags: Tags = ("Qnm3baqH-br",)  # the 11 characters of a version may end like that
    assert with_identities(tags) == ("Qnm3baqH-br", "Qnm3baqH")
    assert matched_tag(HeaderBlock([("if-none-match", '"Qnm3baqH-br-br"')]), "Qnm3baqH-br", VERSION) == "Qnm3baqH-br-br"
    assert matched_tag(HeaderBlock([("if-none-match", '"Qnm3baqH-br"')]), "Qnm3baqH-br", VERSION) == "Qnm3baqH-br"


@pytest.mark.parametrize("value", ['"x"', TAG, '"', "", "garbage", 'W/"x"'])
def test_if_none_match_does_not_match(value: str) -> None:
    assert not unchanged(if_none_match=value)


def test_dates_count_whole_seconds() -> None:
    assert unchanged(if_modified_since=AT)
    assert not unchanged(if_modified_since=BEFORE)
    assert not unchanged(if_modified_since="yesterday")
    assert not unchanged(if_unmodified_since=AT)
    with pytest.raises(PreconditionFailed):
        unchanged(if_unmodified_since=BEFORE)


def test_order_of_evaluation() -> None:
    assert not unchanged(if_none_match='"x"', if_modified_since=AFTER)  # the tag wins over the date
    assert not unchanged(if_match=f'"{TAG}"', if_unmodified_since=BEFORE)
    with pytest.raises(PreconditionFailed):
        unchanged(if_match='"x"', if_none_match=f'"{TAG}"')
    with pytest.raises(PreconditionFailed):
        unchanged(if_match=f'W/"{TAG}"')  # strong comparison


def test_write_precondition() -> None:
    assert write_precondition(HeaderBlock([("if-modified-since", AT)])) is None
    precondition = write_precondition(HeaderBlock([("if-match", '"a", "b"'), ("if-unmodified-since", AT)]))
    assert precondition is not None
    assert (precondition.if_match, precondition.if_none_match, precondition.if_unmodified_since) == (("a", "b"), None, None)
    create_only = write_precondition(HeaderBlock([("if-none-match", "*")]))
    assert create_only is not None
    assert create_only.if_none_match == "*"


def test_parsers_take_anything() -> None:
    assert parse_tags('W/"a", "b"', weak_counts=False) == ("b",)
    assert parse_date("Thu, 99 Foo 2026 00:00:00 GMT") is None
    assert parse_date(None) is None
    assert parse_date("Thu, 01 Jan 1970 00:00:10 GMT") == 10.0


@pytest.mark.parametrize(
    ("version", "date"),
    [
        (0.0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (1_767_225_600_999.5, "Thu, 01 Jan 2026 00:00:00 GMT"),
        (253_402_300_799_999.0, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (1e300, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ],
)
def test_any_version_has_a_date(version, date):
    assert last_modified(version) == date
