import pytest

from svc.errors import PreconditionFailed
from svc.messages import HeaderBlock
from svc.rest.conditional import is_unchanged, parse_date, parse_tags, write_precondition

TAG = "Qnm3baqHtAA"
VERSION = 1_767_225_600_123.25  # 2026-01-01T00:00:00.123Z
AT, BEFORE, AFTER = "Thu, 01 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 23:59:59 GMT", "Thu, 01 Jan 2026 00:00:01 GMT"


def unchanged(**fields: str) -> bool:
    return is_unchanged(HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]), TAG, VERSION)


@pytest.mark.parametrize("value", [f'"{TAG}"', f'W/"{TAG}"', f'"x", "{TAG}"', "*", f'"{TAG}" , "y"'])
def test_if_none_match_matches(value: str) -> None:
    assert unchanged(if_none_match=value)


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
