"""svc.operations.s3: what is asked of the caller, and what becomes of faults. The service itself is played by a class."""

import importlib.util
import io
import socket
from collections.abc import Callable
from typing import Any

import pytest

from svc.config.hosts import parse_hosts
from svc.errors import Problem
from svc.operations import outbound, s3
from svc.operations.outbound import HostRules, ResolvedAddress

TARGET = {"aws_access_key_id": "a", "aws_secret_access_key": "hidden", "bucket": "b", "key": "rows.csv", "region": "r"}

ANYWHERE = HostRules((), public=True)


def fault(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        call()
    return raised.value.status_code, raised.value.message


@pytest.mark.parametrize("name", list(TARGET))
def test_every_member_is_needed(name: str) -> None:
    assert fault(lambda: s3.read_target({key: value for key, value in TARGET.items() if key != name})) == (400, f"{name} is missing.")
    assert fault(lambda: s3.read_target(TARGET | {name: 5}))[1] == f"'{name}' must be a string"


def test_the_extension_is_checked_for_loads_only() -> None:
    text = "S3 key must include one of the following valid file extensions - '.csv', '.json'"
    assert fault(lambda: s3.read_target(TARGET | {"key": "rows.xml"})) == (400, text)
    assert s3.read_target(TARGET | {"key": "rows.JSON"}).key == "rows.JSON"
    assert s3.read_target(TARGET | {"key": "rows"}, extensions=()).key == "rows"
    assert "hidden" not in repr(s3.read_target(TARGET))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "find_spec", lambda name: None)
    assert fault(s3.require_library) == (501, "S3 support is not installed")
    assert fault(lambda: s3.get_object(s3.read_target(TARGET), ANYWHERE)) == (501, "S3 support is not installed")


class Client:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def get_object(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return {"Body": io.BytesIO(b"id\n1\n")}

    def put_object(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return {"ETag": '"x"', "ResponseMetadata": {"HTTPStatusCode": 200}}


def test_objects_are_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    monkeypatch.setattr(s3, "_client", lambda target, rules: client)
    target = s3.read_target(TARGET)
    assert s3.get_object(target, ANYWHERE).read(2) == b"id"
    assert s3.put_object(target, b"[]", ANYWHERE) == {"ETag": '"x"'}
    assert client.asked == [{"Bucket": "b", "Key": "rows.csv"}, {"Bucket": "b", "Key": "rows.csv", "Body": b"[]"}]


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="the extra is not installed")
def test_faults_of_the_library_name_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError, EndpointConnectionError  # type: ignore[import-untyped, unused-ignore]

    target = s3.read_target(TARGET)

    def failing(error: Exception) -> Callable[[s3.S3Object, HostRules], Any]:
        def client(target: s3.S3Object, rules: HostRules) -> Any:
            raise error

        return client

    monkeypatch.setattr(s3, "_client", failing(ClientError({"Error": {"Code": "NoSuchKey", "Message": "There is none."}}, "GetObject")))
    assert fault(lambda: s3.get_object(target, ANYWHERE)) == (502, "S3 refused the request: NoSuchKey, There is none.")
    monkeypatch.setattr(s3, "_client", failing(EndpointConnectionError(endpoint_url="https://x")))
    assert fault(lambda: s3.get_object(target, ANYWHERE)) == (502, "S3 could not be reached: EndpointConnectionError")
    monkeypatch.setattr(s3, "_client", failing(KeyError("x")))
    with pytest.raises(KeyError):
        s3.get_object(target, ANYWHERE)


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="the extra is not installed")
@pytest.mark.parametrize("operation", ["get", "put"])
def test_hosts_that_may_be_asked(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """What the library makes of bucket and region is checked before it connects; a permitted one is connected to."""
    from botocore.exceptions import EndpointConnectionError
    from botocore.httpsession import URLLib3Session  # type: ignore[import-untyped, unused-ignore]

    connected: list[str] = []

    def send(session: Any, request: Any) -> Any:
        connected.append(request.url)
        raise EndpointConnectionError(endpoint_url=request.url)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr(outbound, "resolve", lambda host, port: [ResolvedAddress(socket.AF_INET, ("198.41.0.4", port))])
    target = s3.read_target(TARGET | {"bucket": "garden", "region": "eu-central-1"})

    def ask(rules: HostRules) -> tuple[int, str]:
        del connected[:]
        return fault(lambda: s3.get_object(target, rules) if operation == "get" else s3.put_object(target, b"[]", rules))

    listed = parse_hosts(["*.s3.eu-central-1.amazonaws.com:443"])
    for rules in (ANYWHERE, HostRules(listed, public=False)):
        assert ask(rules)[0] == 502 and connected
    for rules in (HostRules((), public=False), HostRules(parse_hosts(["s3.us-east-1.amazonaws.com"]), public=False)):
        assert ask(rules)[0] == 403 and not connected
    monkeypatch.setattr(outbound, "resolve", lambda host, port: [ResolvedAddress(socket.AF_INET, ("10.0.0.1", port))])
    assert ask(ANYWHERE)[0] == 403 and not connected
    assert ask(HostRules(listed, public=True))[0] == 502 and connected
