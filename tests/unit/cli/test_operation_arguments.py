"""What `name=value` stands for, which names are taken, what is asked for."""

from typing import Any

import pytest

from svc.cli.arguments import UsageError
from svc.cli.operation_arguments import PARAMETERS, OperationArguments, parse_value, read_arguments
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation
from tests.support.cli import ROW


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("limit", "10", 10),
        ("ids", '["1", 2]', ["1", 2]),
        ("permission", '{"super_user": true}', {"super_user": True}),
        ("active", "true", True),
        ("value", "red", "red"),
        ("value", '"12"', "12"),
        ("value", "null", None),
        ("value", "", ""),
        ("value", "NaN", "NaN"),
        ("value", "{broken", "{broken"),
        ("value", "[" * 100_000, "[" * 100_000),
        ("value", "12345678901234567890123", 12345678901234567890123),
        ("value", "a=b", "a=b"),
        ("password", "123", "123"),
        ("password", '"x"', '"x"'),
        ("username", "true", "true"),
        ("auth_password", "1", "1"),
        ("refresh_token", "[]", "[]"),
    ],
)
def test_values(name: str, text: str, value: Any) -> None:
    assert parse_value(name, text) == value


def test_a_field_whose_value_is_text_keeps_it() -> None:
    table = Field("table", "name", "A table.")
    assert parse_value("table", "2024", table) == "2024"
    assert parse_value("table", '"2024"', table) == "2024"
    assert parse_value("key", '"x"', Field("key", "string", "A key.", secret=True)) == '"x"'


def test_fields_and_parameters_are_told_apart() -> None:
    words = read_arguments(["wall=north", "color=blue", "windows=[1]", "target=db", "json=true", "replicated=true", "out=12"], ROW)
    assert words.body == {"wall": "north", "color": "blue", "windows": [1], "replicated": True}
    assert words.parameters == {"target": "db", "json": True, "out": 12}


def test_a_field_of_the_name_of_a_parameter_is_a_field() -> None:
    row = Operation("copy", "system", "Copy.", SUPER_USER, lambda call: None, (Field("out", "string", "Where to."),))
    assert read_arguments(["out=x"], row) == OperationArguments({"out": "x"}, {})


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("wall=n colr=red", "paint has no field colr. Did you mean color?"),
        ("wall=n tarjet=x", "paint has no field tarjet. Did you mean target?"),
        ("wall=n qqq=x", "paint has no field qqq. svc help paint lists its fields."),
        ("north", '"north" is not understood: fields are given as name=value'),
        ("=north", '"=north" is not understood'),
        ("coats=2", "paint needs wall: svc paint wall=..."),
        ("coats=1", "svc help paint describes it."),
        ("wall=n username=x", "paint has no field username"),
    ],
)
def test_what_is_not_taken(line: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_arguments(line.split(), ROW)
    assert text in str(caught.value)


def test_user_and_password_for_another_server_stay_out_of_bodies_that_do_not_take_them() -> None:
    words = read_arguments(["wall=n", "username=ann", "password=1", "target=db"], ROW)
    assert words.body == {"wall": "n"}
    assert words.parameters == {"username": "ann", "password": "1", "target": "db"}
    row = Operation(
        "add_user",
        "users",
        "Add.",
        SUPER_USER,
        lambda call: None,
        (Field("username", "string", "Name."), Field("password", "string", "Its.")),
    )
    words = read_arguments(["username=bob", "password=2"], row, remote=True)
    assert words.body == words.parameters == {"username": "bob", "password": "2"}


def test_settings_are_fields_of_set_configuration() -> None:
    row = Operation("set_configuration", "configuration", "Set.", SUPER_USER, lambda call: None)
    assert read_arguments(["logging_level=debug", "shop_package=x", "http_port=null"], row).body == {
        "logging_level": "debug",
        "shop_package": "x",
        "http_port": None,
    }
    with pytest.raises(UsageError, match="Did you mean logging_level"):
        read_arguments(["loging_level=debug"], row)


def test_switches() -> None:
    assert OperationArguments(parameters={"wait": False}).switch("wait", True) is False
    assert OperationArguments().switch("wait", True) is True
    with pytest.raises(UsageError, match="wait must be true or false"):
        OperationArguments(parameters={"wait": "no"}).switch("wait")


def test_every_parameter_is_described() -> None:
    assert all(PARAMETERS.values())
