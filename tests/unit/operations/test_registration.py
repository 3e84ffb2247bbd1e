"""Registration and licences, of which there are none."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc import __version__
from svc.errors import Problem
from svc.operations.registration import fingerprint
from tests.support.operations import OperationsNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        yield node


def test_any_user_reads_the_version(node: OperationsNode) -> None:
    expected = {"registered": False, "version": __version__, "ram_allocation": None, "license_expiration_date": None}
    assert node.run("registration_info") == expected
    assert node.run("registration_info", node.user("ann", {"super_user": False})) == expected


def test_the_fingerprint_stays(node: OperationsNode) -> None:
    first = node.run("get_fingerprint")["message"]
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert node.run("get_fingerprint") == {"message": first}
    file = node.root / "keys" / "node-id"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["node-id"]


def test_a_fingerprint_cut_short_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "node-id").write_text("12")
    found = fingerprint(tmp_path)
    assert len(found) == 32
    assert fingerprint(tmp_path) == found


def test_all_who_ask_at_once_get_the_same(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(fingerprint(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_there_are_no_licences(node: OperationsNode) -> None:
    assert node.run("get_usage_licenses") == []
    for operation in ("set_license", "install_usage_license"):
        with pytest.raises(Problem) as caught:
            node.run(operation, key="x", company="y")
        assert (caught.value.status_code, caught.value.message) == (501, "Licensing is not used")


@pytest.mark.parametrize("operation", ["get_fingerprint", "set_license", "install_usage_license", "get_usage_licenses"])
def test_only_super_users(node: OperationsNode, operation: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run(operation, node.user("ann", {"super_user": False}))
    assert caught.value.status_code == 403
