"""What was found when an application was loaded, with its place."""

from pathlib import Path

import pytest

from svc.apps.findings import findings_of
from svc.apps.status import EntryStatus


def shown(message: str, directory: Path, *, is_fault: bool = True) -> str:
    status = EntryStatus()
    (status.fail if is_fault else status.warn)(message)
    (found,) = findings_of({"roles": status}, directory)
    assert found.is_fault is is_fault
    return found.shown("shop", "apps/shop")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("schema.graphql:3:12: the type X\nis not known", "apps/shop/schema.graphql:3:12: error: the type X\nis not known"),
        ("roles.yaml:2: role r: no", "apps/shop/roles.yaml:2: error: role r: no"),
        ("resources.py: lib/prices.py:7: NameError: x", "apps/shop/lib/prices.py:7: error: NameError: x"),
        ("resources.py: ended", "apps/shop/resources.py: error: ended"),
        ("other.py: ended", "shop: error: roles: other.py: ended"),
        ("no file matches 'x'", "shop: error: roles: no file matches 'x'"),
        ("http://a.example:80: refused", "shop: error: roles: http://a.example:80: refused"),
        ("", "shop: error: roles: "),
    ],
)
def test_places(message: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "resources.py").touch()
    assert shown(message, tmp_path) == expected
    assert shown(message, tmp_path, is_fault=False) == expected.replace("error:", "warning:", 1)


def test_warnings_of_an_entry_with_an_error_are_warnings(tmp_path: Path) -> None:
    status = EntryStatus()
    status.warn("a")
    status.fail("b")
    status.warn("c")
    assert [(found.is_fault, found.message) for found in findings_of({"x": status}, tmp_path)] == [(False, "a"), (True, "b"), (False, "c")]
    status.report("error", "d")
    assert list(status.graded()) == [(True, "d")]
    status.report("warning", "d")
    assert list(status.graded()) == [(False, "d")]
    status.begin()
    assert list(status.graded()) == []
