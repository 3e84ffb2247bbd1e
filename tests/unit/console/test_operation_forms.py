"""Rows as forms, forms as bodies, and what of a body is kept (spec: console §14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from svc.console.operation_forms import (
    MOST_KEPT,
    TextFault,
    body_of,
    controls_of,
    destroys,
    entered_of,
    kept_body,
    kept_statement,
    others_of,
    pretty,
    read_body,
    read_json,
    without_secrets,
)
from svc.errors import ClientError
from svc.operations.fields import fault_of
from svc.operations.operation import Operation
from svc.operations.registry import all_operations, by_name


def row(name: str) -> Operation:
    return by_name()[name]


@pytest.mark.parametrize("each", all_operations(), ids=lambda each: each.name)
def test_every_row_has_a_form(each: Operation) -> None:
    controls = controls_of(each, {})
    assert [control.name for control in controls] == [field.name for field in each.fields]
    for control, field in zip(controls, each.fields, strict=True):
        assert control.required == field.required and control.help and control.value == ""
        assert control.is_masked == field.secret and (control.tag in ("secret", "area") if field.secret else control.tag != "secret")
        assert (control.tag == "choice") == (field.kind in ("bool", "choice"))


@pytest.mark.parametrize("each", [each for each in all_operations() if each.example], ids=lambda each: each.name)
def test_an_example_goes_through_the_form_and_back(each: Operation) -> None:
    body = {"operation": each.name} | dict(each.example)
    if others_of(each, body):
        pytest.skip("it has fields that no row lists")
    entered = entered_of(each, body)
    again = body_of(each, entered)
    names = {name: field.name for field in each.fields for name in field.names}
    assert again == {names.get(name, name): value for name, value in body.items()}
    for field in each.fields:
        if field.name in again:
            assert fault_of(again[field.name], field) is None


@pytest.mark.parametrize(
    ("name", "entered", "fields"),
    [
        ("describe_table", {"table": "2024", "database": ""}, {"table": "2024"}),
        ("describe_all", {"exact_count": "true"}, {"exact_count": True}),
        ("describe_all", {"exact_count": "false"}, {"exact_count": False}),
        ("describe_all", {"exact_count": "maybe"}, {"exact_count": "maybe"}),
        ("search_by_value", {"value": "12"}, {"value": 12}),
        ("search_by_value", {"value": "fern*"}, {"value": "fern*"}),
        ("search_by_value", {"value": '"12"'}, {"value": "12"}),
        ("search_by_value", {"value": "null"}, {"value": None}),
        ("search_by_value", {"limit": "10"}, {"limit": 10}),
        ("search_by_value", {"limit": "ten"}, {"limit": "ten"}),
        ("search_by_id", {"ids": '["a",\r\n 1]'}, {"ids": ["a", 1]}),
        ("add_user", {"password": "12", "active": "true"}, {"password": "12", "active": True}),
        ("deploy_component", {"credentials": '{"username": "u", "password": "p"}'}, {"credentials": {"username": "u", "password": "p"}}),
        ("deploy_component", {"credentials": "{token"}, {"credentials": "{token"}),
        ("sql", {"sql": "SELECT 1\r\n"}, {"sql": "SELECT 1\n"}),
        ("describe_all", {"nosuch": "x", ".sure": "true"}, {}),
    ],
)
def test_texts_become_values(name: str, entered: dict[str, str], fields: dict[str, Any]) -> None:
    assert body_of(row(name), entered) == {"operation": name} | fields


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ('{"a": 1,\n "b": }', 2, 7, "expecting value"),
        ('["é" x]', 1, 6, "expecting ',' delimiter"),
        ("{", 1, 2, "expecting property name"),
        ("", 1, 1, "expecting value"),
        ("[NaN]", 1, 2, "malformed"),
        ('["\\ud800"]', 1, 3, "unpaired surrogate"),
        ("[" * 5000, 1, 1, "nested too deeply"),
    ],
)
def test_faults_of_json_have_a_line_and_a_column(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(TextFault) as caught:
        read_json(text, "ids")
    fault = caught.value
    assert (fault.line, fault.column) == (line, column), fault.message
    assert what in fault.message and fault.message.startswith("'ids' is not JSON") and fault.status_code == 400


def test_a_lone_surrogate_is_a_fault() -> None:
    with pytest.raises(TextFault):
        read_json('"\ud800"')


@pytest.mark.parametrize("text", ["", " ", "[]", "1", "null"])
def test_a_body_is_an_object(text: str) -> None:
    with pytest.raises(ClientError):
        read_body(text)


def test_a_fault_in_a_field_names_it() -> None:
    with pytest.raises(TextFault) as caught:
        body_of(row("search_by_id"), {"table": "plant", "ids": "[1,"})
    assert caught.value.name == "ids"
    with pytest.raises(TextFault):
        body_of(row("search_by_value"), {"value": "[1,"})  # a text that begins like a list is meant as one


def test_secrets_are_never_filled_in() -> None:
    [control] = [each for each in controls_of(row("add_user"), {"username": "ann", "password": "x"}) if each.name == "password"]
    assert (control.value, control.tag) == ("", "secret")
    controls = {each.name: each for each in controls_of(row("add_certificate"), {"private_key": "-----BEGIN"})}
    assert (controls["private_key"].tag, controls["private_key"].value) == ("area", "")


def test_other_names_of_a_field_fill_it_in() -> None:
    assert {each.name: each.value for each in controls_of(row("describe_table"), {"schema": "shop"})}["database"] == "shop"


@pytest.mark.parametrize(
    ("name", "is_destroying"),
    [
        (name, True)
        for name in ("drop_database", "delete", "purge_backups", "restart", "restart_service", "set_configuration", "remove_node")
    ]
    + [(name, True) for name in ("revoke_key", "restore_backup", "delete_records_before", "cluster_delete_routes", "remove_certificate")]
    + [(name, False) for name in ("insert", "describe_all", "get_configuration", "list_users", "sql", "search_by_id", "revoke")],
)
def test_what_destroys(name: str, is_destroying: bool) -> None:
    assert destroys(row(name)) is is_destroying


SECRET = "hunter-2"


@pytest.mark.parametrize(
    "body",
    [
        {"operation": "add_user", "username": "ann", "password": SECRET},
        {"operation": "alter_user", "username": "ann", "password": SECRET, "current_password": SECRET},
        {"operation": "login", "username": "ann", "password": SECRET},
        {"operation": "add_certificate", "name": "x", "private_key": SECRET},
        {"operation": "deploy_component", "project": "shop", "credentials": {"username": "u", "password": SECRET}},
        {"operation": "insert", "table": "t", "records": [{"id": 1, "apiToken": SECRET, "deep": {"client_secret": SECRET}}]},
        {"operation": "set_configuration", "mail_password": SECRET},
        {"operation": "csv_url_load", "table": "t", "csv_url": f"https://h/?token={SECRET}"},
        {"operation": "import_from_s3", "s3": {"aws_secret_access_key": SECRET}},
        {"operation": "deploy_component", "project": "x", "package": f"https://u:{SECRET}@h/x.git"},
        {"operation": "refresh_operation_token", "refresh_token": SECRET},
    ],
    ids=lambda body: body["operation"],
)
def test_nothing_secret_is_kept(body: dict[str, Any]) -> None:
    kept = kept_body(body, row(body["operation"]))
    assert kept and SECRET not in kept and json.loads(kept)["operation"] == body["operation"]
    assert SECRET in json.dumps(body), "the body itself is not changed"


def test_what_is_long_is_not_kept() -> None:
    body = {"operation": "insert", "table": "t", "records": [{"id": "x" * MOST_KEPT}]}
    assert kept_body(body, row("insert")) == ""
    assert kept_statement("SELECT " + "x" * MOST_KEPT, "") is None
    assert without_secrets(body, row("insert")) == body


@pytest.mark.parametrize(
    ("text", "parameters"),
    [("UPDATE a.b SET password = 'x'", ""), ("SELECT * FROM a.b WHERE apiKey = ?", '["x"]'), ("SELECT ?", '{"token": "x"}')],
)
def test_statements_with_secrets_are_not_kept(text: str, parameters: str) -> None:
    assert kept_statement(text, parameters) is None


def test_small_things_have_one_line() -> None:
    assert pretty(["a", 1]) == '["a", 1]' and pretty({"operation": "x"}) == '{"operation": "x"}'
    assert pretty({"a": {"b": 1}}).count("\n") == 4
