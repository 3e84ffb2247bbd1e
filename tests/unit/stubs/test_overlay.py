"""The stubs of `svc` itself say of each name, method and parameter what there is when an application runs, and in the words of the code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svc
from svc.api import administration, calls, instances, registry, related, results, server, subscriptions, transactions
from svc.api.interface import Databases, Tables
from svc.api.records import Record
from svc.api.table import ClassProperty, Table
from svc.api.verbs import Verb
from svc.auth.users import User
from svc.content.registry import ContentTypes
from svc.errors import Problem
from svc.logs import Logger
from svc.messages import Headers
from svc.query.mapping_members import COMPARATORS, QUERY_OPTIONS, RANGES
from svc.realtime.changes import LogEvent
from svc.stubs.make_overlay import FILES, TEMPLATES, make
from svc.testing import streams
from svc.testing.answer import Answer
from svc.testing.application import Application, Time
from svc.testing.mqtt import MqttClient
from svc.testing.requests import PendingRequest, Requests
from svc.testing.sockets import Socket

OVERLAY = Path(svc.__file__).parent / "stubs" / "overlay"
TYPES = ast.parse((OVERLAY / "_types.pyi").read_text("utf-8"))
PACKAGE = ast.parse((OVERLAY / "package.pyi").read_text("utf-8"))

CLASSES: dict[str, type] = {
    "Blob": svc.Blob,
    "OpenCall": calls.Call,
    "Items": results.Items,
    "Results": results.Results,
    "RelatedRecord": related.RelatedRecord,
    "Event": LogEvent,
    "Subscription": subscriptions.Subscription,
    "RequestTarget": svc.RequestTarget,
    "Record": Record,
    "Instance": instances.Instance,
    "Resource": svc.Resource,
    "Table": Table,
    "Tables": Tables,
    "Databases": Databases,
    "Entry": registry.Entry,
    "ResourceRegistry": registry.ResourceRegistry,
    "User": User,
    "Transaction": transactions.Transaction,
    "TransactionCall": transactions.TransactionCall,
    "TransactionFunction": transactions.TransactionFunction,
    "Headers": Headers,
    "Response": svc.Response,
    "Abort": svc.Abort,
    "Problem": Problem,
    "ClientError": svc.ClientError,
    "ServerError": svc.ServerError,
    "AccessViolation": svc.AccessViolation,
    "ValidationError": svc.ValidationError,
    "Server": server.Server,
    "Logger": Logger,
    "ContentTypes": ContentTypes,
    "HistoryEntry": administration.HistoryEntry,
    "RecordCount": administration.RecordCount,
}
SERVER = {"resources", "config", "content_types", "contentTypes", "hostname", "instance", "instances", "worker_index", "is_main_thread"}
IN_INSTANCES = {  # set when they are made, or by `__getattr__`
    "RequestTarget": {
        "conditions", "operator", "limit", "offset", "select", "sort", "explain", "enforce_execution_order", "aggregate", "after", "live", "as_array",
        "__getattr__",
    },
    "Response": {"body", "status", "data"},
    "Abort": {"response"},
    "Problem": {"message", "headers", "errors", "retryable"},
    "HistoryEntry": None,
    "RecordCount": None,
    "User": {"role"},
    "Server": SERVER,
}  # fmt: skip


@pytest.mark.parametrize("template", FILES)
def test_they_are_those_that_are_made_of_the_code(template: str) -> None:
    """`python -m svc.stubs.make_overlay` writes them."""
    made, there = (ast.dump(ast.parse(text)) for text in (make(TEMPLATES / template), (OVERLAY / FILES[template]).read_text("utf-8")))
    assert made == there


@pytest.mark.parametrize("name", ["svc.api.table.Table: nothing", "svc.api.table.Nothing", "svc.api.nothing: nothing"])
def test_a_name_that_the_code_does_not_have_is_refused(name: str, tmp_path: Path) -> None:
    template = tmp_path / "types.pyi"
    template.write_text(f'"""Types."""\n\nclass Table:\n    """{name}"""\n')
    with pytest.raises((LookupError, AttributeError, ImportError)):
        make(template)


def functions(nodes: list[ast.stmt], place: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """What is documented, but for special methods, with where it is."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) and not node.name.startswith("__"):
            yield f"{place}{node.name}", node


@pytest.mark.parametrize("file", ["_types.pyi", "testing.pyi", "package.pyi"])
def test_each_parameter_is_explained(file: str) -> None:
    silent = {}
    for place, node in functions(ast.parse((OVERLAY / file).read_text("utf-8")).body):
        explained = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", ast.get_docstring(node) or ""))))
        names = {argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} - {"self", "cls", "context"}
        if missing := names - explained:
            silent[place] = missing
    assert silent == {}


def members(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name, statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement


def stub_class(name: str) -> ast.ClassDef:
    return next(node for node in TYPES.body if isinstance(node, ast.ClassDef) and node.name == name)


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_class_of_the_stubs_has_is_there(name: str) -> None:
    kind = CLASSES[name]
    set_later = IN_INSTANCES.get(name, set())
    if set_later is None:
        return
    for member, _ in members(stub_class(name)):
        slots = getattr(kind, "__slots__", ())
        known = member in set_later or member in slots or member in kind.__annotations__
        known = known or inspect.getattr_static(kind, member, None) is not None
        assert known, f"{name}.{member}"


@pytest.mark.parametrize("name", CLASSES)
def test_methods_take_the_parameters_that_the_stubs_say(name: str) -> None:
    kind = CLASSES[name]
    for member, node in members(stub_class(name)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (member.startswith("__") and member != "__init__"):
            continue
        if any(isinstance(each, ast.Name) and each.id in ("overload", "property") for each in node.decorator_list):
            continue
        found: Any = inspect.getattr_static(kind, member)
        function = getattr(found, "__func__", found)
        if not callable(function) or isinstance(function, type | ClassProperty):
            continue
        there = list(inspect.signature(function).parameters.values())
        if [each.kind for each in there[1:2]] == [inspect.Parameter.VAR_POSITIONAL]:
            continue
        names = {each.name for each in there}
        has_options = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in there)
        for argument in (*node.args.args, *node.args.kwonlyargs):
            assert argument.arg in names or has_options, f"{name}.{member}({argument.arg})"
        count = len(node.args.posonlyargs) + len(node.args.args)
        accepted = [each for each in there if each.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        assert count <= len(accepted), f"{name}.{member}"


def documented(kind: type) -> Iterator[str]:
    """Public members of a class that applications use: in snake_case, with a docstring."""
    for member in dir(kind):
        value = inspect.getattr_static(kind, member)
        if (
            not member.startswith("_")
            and member == member.lower()
            and getattr(value, "__doc__", None)
            and value.__doc__ != type(value).__doc__
        ):
            yield member


def test_what_tests_of_applications_use_is_in_the_stubs() -> None:
    stubs = ast.parse((OVERLAY / "testing.pyi").read_text("utf-8"))
    stated = {f"{node.name}.{name}" for node in stubs.body if isinstance(node, ast.ClassDef) for name, _ in members(node)}
    kinds = (Answer, Application, MqttClient, PendingRequest, Requests, Socket, streams.Stream, Time)
    missing = {f"{kind.__name__}.{name}" for kind in kinds for name in documented(kind) if name in vars(kind)} - stated
    assert missing == set()


INSIDE = {  # members that are not for applications
    "Record": {"get", "items", "keys", "values"},  # of every mapping
    "Results": {"planned", "ready"},
    "Table": {"collect", "sourced_from"},
}


@pytest.mark.parametrize("name", ["Record", "Results", "Items", "Table"])
def test_what_applications_use_is_in_the_stubs(name: str) -> None:
    stated: set[str] = set()
    kinds = [name]
    while kinds:
        node = stub_class(kinds.pop())
        stated.update(member for member, _ in members(node))
        kinds += [base.value.id if isinstance(base, ast.Subscript) else base.id for base in node.bases if _is_ours(base)]  # type: ignore[attr-defined]
    stated |= {"add_to", "subtract_from", "copy"}  # in what is generated
    missing = {member for member in documented(CLASSES[name]) if type(inspect.getattr_static(CLASSES[name], member)) is not Verb} - stated
    assert missing == INSIDE.get(name, set())


def test_the_server_has_what_the_specification_says() -> None:
    """http §12.7"""
    assert {name for name, _ in members(stub_class("Server"))} >= SERVER


def _is_ours(base: ast.expr) -> bool:
    name = base.value if isinstance(base, ast.Subscript) else base
    return isinstance(name, ast.Name) and any(isinstance(node, ast.ClassDef) and node.name == name.id for node in TYPES.body)


def test_every_name_of_the_package_has_a_type() -> None:
    stated: set[str] = set()
    for node in PACKAGE.body:
        if isinstance(node, ast.ImportFrom):
            stated.update(alias.asname for alias in node.names if alias.asname)
        elif isinstance(node, ast.FunctionDef):
            stated.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stated.add(node.target.id)
    assert stated == {*svc.__all__, "__version__"}


def literals(name: str) -> set[str]:
    node = next(
        each for each in TYPES.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id == name
    )
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def test_comparators_are_those_that_queries_have() -> None:
    ranges = {name for name, comparator in COMPARATORS.items() if comparator in RANGES}
    assert literals("RangeComparator") == ranges
    assert literals("Comparator") == {name for name in COMPARATORS.keys() - ranges if name == name.lower()} - {
        "prefix"
    }  # what `==x*` is read as


def test_options_of_queries_are_those_that_are_read() -> None:
    stated = {member for member, _ in members(stub_class("Options"))}
    assert stated - {"check_permission"} < set(QUERY_OPTIONS)


def test_what_tests_of_applications_use_is_there() -> None:
    import svc.testing
    from svc.testing import answer, application, mqtt, records, requests, sockets, streams

    homes = (mqtt, answer, application, records, requests, sockets, streams, svc.testing)
    stubs = ast.parse((OVERLAY / "testing.pyi").read_text("utf-8"))
    stated = {node.name for node in stubs.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(svc.testing.__all__) <= stated
    set_later = {
        "instance", "clock", "logs", "directory", "ids", "events", "headers", "request", "status", "content", "early_hints", "data", "id", "name",
        "close_code", "close_reason", "subprotocol", "user", "seconds",
        "topic", "payload", "qos", "retain", "dup", "packet_id", "properties", "content_type", "user_properties", "client_id", "version", "is_open", "reason",
        "reason_string",
    }  # fmt: skip
    for node in stubs.body:
        if isinstance(node, ast.ClassDef):
            kind = next(getattr(home, node.name) for home in homes if hasattr(home, node.name))
            for member, _ in members(node):
                known = member in set_later or member in getattr(kind, "__slots__", ())
                assert known or inspect.getattr_static(kind, member, None) is not None, f"{node.name}.{member}"
