"""The HTTP access log."""

from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import AccessLog, Logs


def access_of(root: Path, **section: Any) -> tuple[Logs, AccessLog]:
    config = Config.from_document({"http": {"logging": section}}, root)
    logs = Logs.from_config(config, clock=FakeClock())
    access = AccessLog.from_config(config, logs)
    assert access is not None
    return logs, access


def written(root: Path) -> list[str]:
    return [line.partition("Z ")[2] for line in (root / "log" / "svc.log").read_text().splitlines()]


def test_it_is_off_without_its_section(tmp_path: Path) -> None:
    config = Config.from_document({}, tmp_path)
    assert AccessLog.from_config(config, Logs(FakeClock())) is None


def test_lines(tmp_path: Path) -> None:
    logs, access = access_of(tmp_path, level="info")
    access.write("GET", "/plant/7?select(name)", "HTTP/1.1", 200, 0.00342)
    access.write("PUT", "/plant/8", "HTTPS/1.1", 403, 0.0011, client="203.0.113.7")
    access.write("GET", "/plant/8", "HTTP/1.1", 200, 0.001, (), bytes(range(16)))
    assert written(tmp_path) == [
        "[http/0] [info] [http]: GET /plant/7?select(name) HTTP/1.1 200 3.42ms id: 1",
        "[http/0] [warn] [http]: PUT /plant/8 HTTPS/1.1 403 1.10ms client: 203.0.113.7 id: 2",
        "[http/0] [info] [http]: GET /plant/8 HTTP/1.1 200 1.00ms id: 3 trace: 000102030405060708090a0b0c0d0e0f",
    ]
    logs.close()


def test_parameters_that_look_like_secrets_are_hidden(tmp_path: Path) -> None:
    logs, access = access_of(tmp_path, level="info", timing=False, id=False)
    access.write("GET", "/plant/?access_token=S3CRET&key=7&name=fern", "HTTP/1.1", 200, 0)
    assert written(tmp_path) == ["[http/0] [info] [http]: GET /plant/?access_token=***&key=7&name=fern HTTP/1.1 200"]
    logs.close()


def test_headers_never_show_credentials(tmp_path: Path) -> None:
    logs, access = access_of(tmp_path, level="info", headers=True, timing=False, id=False)
    access.write(
        "PUT", "/p", "HTTP/1.1", 403, 1.0, [("host", "a.example"), ("Authorization", "Basic x"), ("cookie", "y"), ("accept", "*/*")]
    )
    assert written(tmp_path) == ["[http/0] [warn] [http]: PUT /p HTTP/1.1 host: a.example, accept: */* 403"]
    logs.close()


@pytest.mark.parametrize(("level", "statuses"), [("info", [200, 404, 500]), ("warn", [404, 500]), ("error", [500])])
def test_the_level_chooses_by_status(tmp_path: Path, level: str, statuses: list[int]) -> None:
    logs, access = access_of(tmp_path, level=level, timing=False, id=False)
    for status in (200, 404, 500):
        access.write("GET", "/", "HTTP/1.1", status, 0.0)
    assert [int(line[-3:]) for line in written(tmp_path)] == statuses
    logs.close()
