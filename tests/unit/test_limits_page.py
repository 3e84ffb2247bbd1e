"""docs/limits.md has the figures of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from svc.accounts import codes
from svc.accounts import endpoint as accounts_endpoint
from svc.accounts.openid import endpoint as login_endpoint
from svc.accounts.openid.identities import MOST_PER_ACCOUNT
from svc.accounts.openid.settings import MOST_PROVIDERS
from svc.accounts.settings import HourlyLimits
from svc.api import threads
from svc.apps import load_limit
from svc.config.settings import BY_NAME
from svc.connection.load_shedding import RequestClass, class_limits
from svc.connection.shared import SharedState
from svc.console import console, edited_text
from svc.content import cbor_reader, csv_reader, json_split, multipart
from svc.graphql import changes, document, selection, socket_transport
from svc.http import bodies
from svc.mail import outbox
from svc.mqtt import shared
from svc.operations import api_keys, uploads
from svc.pages import kept_forms, sent_form
from svc.pages.importing import columns
from svc.protocol import http2_flood_limits, request_head, websocket
from svc.query import calls, grouping, nodes, row_rules, url
from svc.realtime import limits
from svc.realtime.live import materialized_result, queries, query_spec
from svc.scheduler import job
from svc.sql import limits as sql_limits
from svc.store import database, definitions
from svc.store.values import keys, validation
from tests.support.node import Node

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
MIB = 1 << 20


def default(name: str) -> int:
    value = BY_NAME[name].default
    assert isinstance(value, int)
    return value


FIGURES = {
    "header section, request line": f"{default('http.maxHeaderSize'):,} bytes",
    "header fields": f"{request_head.FIELDS_MAX}",
    "body, decoded": f"{default('http.maxRequestBodySize') >> 30} GiB",
    "body of QUERY, of GraphQL, of GET and DELETE": f"{bodies.QUERY_MAX // MIB} MiB",
    "bodies in memory while they arrive, of all callers": f"{signature(SharedState).parameters['max_bodies'].default >> 30} GiB",
    "time to receive a request and to begin its answer": f"{default('http.timeout') // 1000} s",
    "time to receive the header": f"{default('http.headersTimeout') // 1000} s",
    "idle connection": f"{default('http.keepAliveTimeout') // 1000} s",
    "wait of a request under overload: reads; writes; SQL and loads": "; ".join(
        f"{limit * 1000:.0f} ms" for limit in class_limits(default("http.requestAgeLimit") / 1000)[RequestClass.READ :]
    ),
    "requests at a time on one HTTP/2 connection": f"{http2_flood_limits.MAX_STREAMS}",
    "parts of a form": f"{multipart.MAX_PARTS}",
    "all parts of a form that are not files": f"{multipart.MAX_FIELDS // MIB} MiB",
    "columns of CSV": f"{csv_reader.MAX_COLUMNS:,}",
    "file that is kept for an import; all of them; those of one user": (
        f"{uploads.MOST_BYTES // MIB} MiB; {uploads.ALL_BYTES >> 30} GiB; {uploads.OF_A_USER}"
    ),
    "columns of a file on the page that imports it": f"{columns.MOST_COLUMNS}",
    "nesting of JSON and MessagePack; of CBOR": f"at least {json_split.MAX_DEPTH} levels; {cbor_reader.MAX_DEPTH}",
    "query string": f"{url.MAX_TEXT:,} characters; with method and path not more than the request line",
    "groups, calls and braces in each other": f"{calls.MAX_DEPTH} levels",
    "names in a path, each of which may be a join": f"{calls.MAX_PATH}",
    "attributes to sort by": f"{nodes.MAX_SORT_KEYS}",
    "attributes, and functions, of `group()`": f"{nodes.MAX_GROUP_KEYS}, and {nodes.MAX_GROUP_FUNCTIONS}",
    "records that a query reads through relationships": f"{default('query.maxRelatedRows'):,}",
    "memory of a query that sorts, groups or joins": f"{default('query.maxBytes') // MIB} MiB",
    "work of a query": f"{default('query.maxTime') // 1000} s",
    "groups of `group()` and `facet()`": f"{grouping.MAX_GROUPS:,}",
    "work on one statement": f"{default('sql.maxTime') // 1000} s",
    "memory of one statement, with the records that it writes": f"{default('sql.maxMemory') // MIB} MiB",
    "rows of an answer that is not streamed": f"{default('sql.maxRows'):,}",
    "text of a statement": f"{default('sql.maxLength'):,} characters",
    "expressions and queries in each other": f"{sql_limits.MAX_DEPTH} levels",
    "terms of a SELECT; arguments of a function; tables in a FROM; SELECTs of a UNION; parameters": "; ".join(
        f"{most:,}"
        for most in (
            sql_limits.MAX_COLUMNS,
            sql_limits.MAX_ARGUMENTS,
            sql_limits.MAX_TABLES,
            sql_limits.MAX_COMPOUND,
            sql_limits.MAX_PARAMETER,
        )
    ),
    "a [rule](rules.md) on rows; elements of a list that a value in it stands for": f"{row_rules.MAX_RULE:,} characters; {row_rules.MAX_ELEMENTS:,}",
    "key": f"{keys.MAX_KEY_CHARACTERS} characters, {keys.MAX_KEY_BYTES:,} bytes",
    "values in the lists and objects of one record": f"{validation.MAX_VALUES:,}",
    "lists and objects of a record in each other": f"{validation.MAX_DEPTH} levels",
    "indexed attributes of a table": f"{definitions.MAX_INDEXES}",
    "name of a table": f"{definitions.MAX_NAME_BYTES} bytes",
    "tables and indexes of a database, together": f"{database.MAX_TABLE_STORES:,}",
    "subscriptions of a process to live queries": f"{queries.MAX_SUBSCRIPTIONS:,}",
    "rows of a live query with `limit`": f"{query_spec.MAX_WINDOW:,}",
    "rows of a live query whose [rules](rules.md) name `$now`": f"{materialized_result.MAX_COMPARED:,}",
    "messages of a shared subscription that wait for members without room, where the others may not read them": f"{shared.HELD}",
    "message of a WebSocket": f"{websocket.MAX_PAYLOAD // MIB} MiB",
    "events that wait for a slow client": f"{limits.MAX_MISSED:,}, read again from the log",
    "document": f"{document.MAX_LENGTH // MIB} MiB, {document.MAX_TOKENS:,} tokens",
    "nesting of a selection": f"{selection.MAX_DEPTH} levels",
    "fields of an operation, fragments counted wherever they are used": f"{selection.MAX_SELECTIONS:,}",
    "mutations of one operation": f"{changes.MAX_CHANGES}",
    "subscriptions and queries of one WebSocket at a time": f"{socket_transport.MAX_OPERATIONS}",
    "loading a module": f"{load_limit.LOAD_SECONDS:.0f} s",
    "a handler": f"{default('http.timeout') // 1000} s (`http.timeout`)",
    "calls of `run_in_thread` at a time": f"{threads.MAX_THREADS} run, {threads.MAX_WAITING:,} wait",
    "jobs of an application": f"{job.MAX_JOBS:,}",
    "a file of an application as a text in the console": f"{edited_text.MOST_EDITED // MIB} MiB",
    "form of a page, with its files; without a login": f"{sent_form.MOST_BYTES // MIB} MiB; {console._ANONYMOUS // MIB} MiB",
    "form of a page that is done after a login": f"{kept_forms.LONGEST // MIB} MiB, no files",
    "text and HTML of a mail": f"{outbox.MAX_BODY // MIB} MiB",
    "mails to one address in an hour": f"{default('mail.hourlyLimit')} (`mail.hourlyLimit`)",
    "mails in the outbox": f"{outbox.MAX_ROWS:,}",
    "sign-ups, and wishes for mails, of one network in an hour": f"{HourlyLimits().sign_ups} (`accounts.limits.signUps`)",
    "mails of accounts to one address in an hour": f"{HourlyLimits().mails} (`accounts.limits.mails`)",
    "codes of accounts that are outstanding": f"{codes.MAX_ROWS:,}",
    "body of a request to `/accounts`": f"{accounts_endpoint.MAX_BODY >> 10} KiB",
    "providers of an application; logins at providers of one account": f"{MOST_PROVIDERS}" if MOST_PROVIDERS == MOST_PER_ACCOUNT else "",
    "logins at a provider under way; of one network": f"{login_endpoint.MOST_AT_ONCE}; {login_endpoint.MOST_OF_NETWORK}",
    "API keys": f"{api_keys.MOST_KEYS:,}",
}


def rows() -> dict[str, str]:
    return {name.strip(): figure.strip() for name, figure in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE) if name.strip()}


def test_each_row_is_compared() -> None:
    assert rows().keys() == FIGURES.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_the_figure_is_that_of_the_code(name: str) -> None:
    assert rows()[name] == FIGURES[name]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("limits"))
    yield made
    made.close()


def form(parts: int) -> bytes:
    return b"".join([b'--b\r\nContent-Disposition: form-data; name="p%d"\r\n\r\nx\r\n' % n for n in range(parts)]) + b"--b--\r\n"


def columns(count: int) -> bytes:
    return ",".join([f"c{n}" for n in range(count)]).encode() + b"\n" + b"1," * (count - 1) + b"1"


def put(body: bytes, media_type: str = "application/json", target: str = "/Product/1") -> tuple[str, str, bytes, dict[str, str]]:
    return "PUT", target, body, {"Content-Type": media_type}


def get(query: str) -> tuple[str, str, bytes, dict[str, str]]:
    return "GET", f"/Product/?{query}", b"", {}


def nested(levels: int, before: bytes = b"") -> bytes:
    return b'{"long":"' + before + b'","a":' + b"[" * levels + b"]" * levels + b"}"


FORM, CSV, CBOR = "multipart/form-data; boundary=b", "text/csv", "application/cbor"
NESTING = "nesting of JSON and MessagePack; of CBOR"
WITHIN_AND_BEYOND = [
    ("parts of a form", put(form(500), FORM), put(form(501), FORM)),
    ("columns of CSV", put(columns(10_000), CSV), put(columns(10_001), CSV)),
    (NESTING, put(b"{}"), put(nested(501, b"x" * 200_000))),
    (NESTING, put(b"\xa0", CBOR), put(b"\xa1aa" + b"\x81" * 401 + b"\x01", CBOR)),
    ("lists and objects of a record in each other", put(nested(64)), put(nested(65))),
    ("values in the lists and objects of one record", put(b'{"a":[' + b"1," * 199_000 + b"1]}"), put(b'{"a":[' + b"1," * 200_000 + b"1]}")),
    ("key", put(b"{}", target="/Product/" + "k" * 659), put(b"{}", target="/Product/" + "k" * 660)),
    ("query string", get("name==" + "x" * 16_000), get("name==" + "x" * 16_384)),
    ("groups, calls and braces in each other", get("(" * 32 + "name==x" + ")" * 32), get("(" * 33 + "name==x" + ")" * 33)),
    ("names in a path, each of which may be a join", get("name==x"), get("name==x&a" + ".a" * 64 + "==1")),
    ("attributes to sort by", get("name==x&sort(" + "name," * 31 + "id)"), get("name==x&sort(" + "name," * 32 + "id)")),
]


@pytest.mark.parametrize(("row", "within", "beyond"), WITHIN_AND_BEYOND, ids=[row for row, _, _ in WITHIN_AND_BEYOND])
def test_what_happens_beyond_it(node: Node, row: str, within: Any, beyond: Any) -> None:
    said = next(line for line in PAGE.splitlines() if line.startswith(f"| {row} |")).split("|")[-2]
    assert node.connect().ask(*within)[0] in (200, 204)
    assert str(node.connect().ask(*beyond)[0]) in said


def test_settings_exist() -> None:
    names = set(re.findall(r"`((?:http|query|sql)\.\w+)`", PAGE))
    assert names and names <= BY_NAME.keys()
