"""Which values a statement gets."""

from __future__ import annotations

import pytest

from svc.cli.arguments import UsageError
from svc.cli.sql.parameters import Parameters, read_parameters


def test_values_are_json_or_text() -> None:
    assert read_parameters(["7", "true", "null", "a b", '"7"', "[1]"]).values == [7, True, None, "a b", "7", [1]]
    assert read_parameters([":id=7", "$name=a=b\nc", "x="]).named == {"id": 7, "name": "a=b\nc", "x": ""}
    assert read_parameters([]) == Parameters()


def test_not_both_kinds() -> None:
    with pytest.raises(UsageError, match="either"):
        read_parameters(["7", "id=7"])


def test_a_lone_statement_gets_all_of_them() -> None:
    assert Parameters([1]).of("select 1", is_only=True) == [1]
    assert Parameters(named={"a": 1}).of("select 1", is_only=True) == {"a": 1}
    assert Parameters().of("select ?", is_only=True) is None


def test_several_get_what_they_name() -> None:
    named = Parameters(named={"a": 1, "b": 2})
    assert named.of("select :a") == {"a": 1}
    assert named.of("select :c") == {}
    assert named.of("select 1") is None
    assert Parameters([1]).of("select ?") == [1]
    assert Parameters([1]).of("select '?'") is None
