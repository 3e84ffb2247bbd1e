"""The standard library's logging and what applications print reach the log."""

import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs, capture_logging, capture_output, component


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs.from_config(Config.from_document({"logging": {"level": "info"}}, tmp_path), clock=FakeClock())
    yield logs
    logs.close()


def written(root: Path) -> list[str]:
    file = root / "log" / "svc.log"
    return [line.partition("Z ")[2] or line for line in file.read_text().splitlines()] if file.exists() else []


def test_records_of_the_standard_library(tmp_path: Path, logs: Logs) -> None:
    undo = capture_logging(logs)
    try:
        logging.getLogger("svc.store").warning("slow %s", "write")
        logging.getLogger("httpx").info("hello")
        logging.getLogger("httpx").debug("no")
        logging.getLogger("x").critical("worst")
        logging.getLogger("x").warning("bad %d", "format")
        try:
            raise KeyError("k")
        except KeyError:
            logging.getLogger("asyncio").exception("failed")
    finally:
        undo()
    lines = written(tmp_path)
    assert lines[:5] == [
        "[main/0] [warn] [storage]: slow write",
        "[main/0] [info] [httpx]: hello",
        "[main/0] [fatal] [x]: worst",
        '[main/0] [warn] [x]: bad %d ["format"]',
        "[main/0] [error] [asyncio]: failed",
    ]
    assert lines[-1] == "KeyError: 'k'"


def test_fields_of_requests_are_no_debugging_output(tmp_path: Path) -> None:
    logs = Logs.from_config(Config.from_document({"logging": {"level": "trace"}}, tmp_path), clock=FakeClock())
    level = logging.getLogger("hpack").level
    undo = capture_logging(logs)
    try:
        logging.getLogger("hpack.hpack").debug("Decoded %s", "authorization: Basic c2VjcmV0")
        logging.getLogger("h2.connection").debug("something")
    finally:
        undo()
        logs.close()
    assert written(tmp_path) == ["[main/0] [debug] [h2.connection]: something"]
    assert logging.getLogger("hpack").level == level


@pytest.mark.parametrize(
    "name", ["boto3", "botocore.auth", "httpcore.http11", "oauthlib.oauth2", "s3transfer.utils", "urllib3.connectionpool"]
)
def test_libraries_do_not_log_the_credentials_that_they_send(tmp_path: Path, name: str) -> None:
    logs = Logs.from_config(Config.from_document({"logging": {"level": "trace"}}, tmp_path), clock=FakeClock())
    undo = capture_logging(logs)
    try:
        logging.getLogger(name).debug("Authorization: AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101")
        logging.getLogger(name).warning("told")
    finally:
        undo()
        logs.close()
    assert written(tmp_path) == [f"[main/0] [warn] [{name}]: told"]


def test_the_key_of_s3_is_in_no_line(tmp_path: Path) -> None:
    auth, awsrequest, credentials = (pytest.importorskip(f"botocore.{name}") for name in ("auth", "awsrequest", "credentials"))
    logs = Logs.from_config(Config.from_document({"logging": {"level": "trace"}}, tmp_path), clock=FakeClock())
    undo = capture_logging(logs)
    try:
        request = awsrequest.AWSRequest("PUT", "https://bucket.s3.amazonaws.com/key", {}, b"data")
        auth.S3SigV4Auth(credentials.Credentials("AKIAEXAMPLE", "topsecret"), "s3", "eu-west-1").add_auth(request)
        logging.getLogger("botocore.endpoint").debug("Sending http request: %s", dict(request.headers))
        assert "AKIAEXAMPLE" in request.headers["Authorization"]
        logging.getLogger("other").debug("said")
    finally:
        undo()
        logs.close()
    assert written(tmp_path) == ["[main/0] [debug] [other]: said"]


def test_instances_that_end_in_the_order_of_their_beginning_leave_levels_as_they_were(tmp_path: Path, logs: Logs) -> None:
    level = logging.getLogger("hpack").level
    first, second = (capture_logging(logs, name) for name in ("svc", "svc.store"))
    first()
    assert logging.getLogger("hpack").level == logging.INFO
    second()
    assert logging.getLogger("hpack").level == level


def test_our_modules_write_to_the_log_of_their_subsystem(tmp_path: Path) -> None:
    document = {
        "logging": {"level": "error", "path": "log/svc.log"},
        "storage": {"logging": {"level": "debug", "path": "log/storage.log"}},
        "shop": {"logging": {"level": "trace", "path": "log/shop.log"}},
    }
    logs = Logs.from_config(Config.from_document(document, tmp_path), clock=FakeClock())
    undo = capture_logging(logs)
    token = component.set("shop")
    try:
        logging.getLogger("svc.store").debug("own level")
        logging.getLogger("svc.store.env").debug("of a part")
        logging.getLogger("svc.storefront").debug("not of the store")
        logging.getLogger("svc.analytics").warning("as the main section says")
    finally:
        component.reset(token)
        undo()
        logs.close()
    own = (tmp_path / "log" / "storage.log").read_text().splitlines()
    assert [line.partition("Z ")[2] for line in own] == [
        "[main/0] [debug] [shop] [storage]: own level",
        "[main/0] [debug] [shop] [storage]: of a part",
    ]
    assert (tmp_path / "log" / "shop.log").read_text().endswith("[debug] [shop] [svc.storefront]: not of the store\n")
    assert written(tmp_path) == []


def test_the_level_follows_the_configuration(tmp_path: Path, logs: Logs) -> None:
    undo = capture_logging(logs)
    try:
        logging.getLogger("x").debug("no")
        logs.configure(Config.from_document({"logging": {"level": "debug"}}, tmp_path))
        logging.getLogger("x").debug("yes")
    finally:
        undo()
    assert written(tmp_path) == ["[main/0] [debug] [x]: yes"]


def test_capturing_is_undone(logs: Logs) -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    capture_logging(logs)()
    assert (root.handlers[:], root.level) == before


def test_what_an_application_prints_is_copied(tmp_path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    undo = capture_output(logs)
    print("ours")
    token = component.set("shop")
    print("one")
    print("two", end="")
    print(" three\n\nfour")
    print("trouble", file=sys.stderr)
    print("without end", end="")
    sys.stdout.flush()
    component.reset(token)
    undo()
    assert sys.stdout is out
    assert written(tmp_path) == [
        "[main/0] [info] [shop]: one",
        "[main/0] [info] [shop]: two three",
        "[main/0] [info] [shop]: four",
        "[main/0] [error] [shop]: trouble",
    ]
    assert out.getvalue() == "ours\none\ntwo three\n\nfour\nwithout end"
    assert err.getvalue() == "trouble\n"


def test_on_streams_printed_text_appears_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    logs = Logs(FakeClock())
    logs.configure(Config.from_document({"logging": {"level": "info", "stdStreams": True}}, tmp_path), stdout=out)
    monkeypatch.setattr(sys, "stdout", out)
    undo = capture_output(logs)
    token = component.set("shop")
    print("hello")
    component.reset(token)
    undo()
    assert out.getvalue().endswith("[main/0] [info] [shop]: hello\n")
    assert out.getvalue().count("hello") == 1
    logs.close()


def test_one_logger_alone_can_be_captured(tmp_path: Path, logs: Logs) -> None:
    before = logging.getLogger().handlers[:]
    undo = capture_logging(logs, "svc")
    try:
        assert logging.getLogger().handlers == before
        logging.getLogger("svc.store").warning("ours")
        logging.getLogger("uvicorn").warning("not ours")
    finally:
        undo()
    assert written(tmp_path) == ["[main/0] [warn] [storage]: ours"]
