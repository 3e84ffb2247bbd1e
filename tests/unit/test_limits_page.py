"""docs/limits.md has the figures of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from svc.api import threads
from svc.apps import load_limit
from svc.config.settings import BY_NAME
from svc.content import csv_reader, json_split, multipart
from svc.graphql import changes, document, selection, socket_transport
from svc.protocol import http2_flood_limits, websocket
from svc.query import calls, grouping, nodes, url
from svc.realtime import limits
from svc.realtime.live import queries, query_spec
from svc.scheduler import job
from svc.store import database, definitions
from svc.store.values import keys, validation

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
MIB = 1 << 20


def default(name: str) -> int:
    value = BY_NAME[name].default
    assert isinstance(value, int)
    return value


FIGURES = {
    "header section, request line": f"{default('http.maxHeaderSize'):,} bytes",
    "body, decoded": f"{default('http.maxRequestBodySize') >> 30} GiB",
    "time to receive a request and to begin its answer": f"{default('http.timeout') // 1000} s",
    "time to receive the header": f"{default('http.headersTimeout') // 1000} s",
    "idle connection": f"{default('http.keepAliveTimeout') // 1000} s",
    "requests at a time on one HTTP/2 connection": f"{http2_flood_limits.MAX_STREAMS}",
    "parts of a form": f"{multipart.MAX_PARTS}",
    "all parts of a form that are not files": f"{multipart.MAX_FIELDS // MIB} MiB",
    "columns of CSV": f"{csv_reader.MAX_COLUMNS:,}",
    "nesting of JSON": f"{json_split.MAX_DEPTH} levels",
    "query string": f"{url.MAX_TEXT:,} characters",
    "groups, calls and braces in each other": f"{calls.MAX_DEPTH} levels",
    "names in a path, each of which may be a join": f"{calls.MAX_PATH}",
    "attributes to sort by": f"{nodes.MAX_SORT_KEYS}",
    "attributes, and functions, of `group()`": f"{nodes.MAX_GROUP_KEYS}, and {nodes.MAX_GROUP_FUNCTIONS}",
    "records that a query reads through relationships": f"{default('query.maxRelatedRows'):,}",
    "memory of a query that sorts, groups or joins": f"{default('query.maxBytes') // MIB} MiB",
    "work of a query": f"{default('query.maxTime') // 1000} s",
    "groups of `group()` and `facet()`": f"{grouping.MAX_GROUPS:,}",
    "key": f"{keys.MAX_KEY_CHARACTERS} characters, {keys.MAX_KEY_BYTES:,} bytes",
    "values in the lists and objects of one record": f"{validation.MAX_VALUES:,}",
    "indexed attributes of a table": f"{definitions.MAX_INDEXES}",
    "name of a table": f"{definitions.MAX_NAME_BYTES} bytes",
    "tables and indexes of a database, together": f"{database.MAX_TABLE_STORES:,}",
    "subscriptions of a process to live queries": f"{queries.MAX_SUBSCRIPTIONS:,}",
    "rows of a live query with `limit`": f"{query_spec.MAX_WINDOW:,}",
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
}


def rows() -> dict[str, str]:
    return {name.strip(): figure.strip() for name, figure in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE) if name.strip()}


def test_each_row_is_compared() -> None:
    assert rows().keys() == FIGURES.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_the_figure_is_that_of_the_code(name: str) -> None:
    assert rows()[name] == FIGURES[name]


def test_settings_exist() -> None:
    names = set(re.findall(r"`((?:http|query)\.\w+)`", PAGE))
    assert names and names <= BY_NAME.keys()
