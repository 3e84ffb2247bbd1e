"""Paths of a root that was copied or moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.config import Config, load_config, reread
from svc.config.document import read_document, write_document
from svc.config.relocation import relocated

BEFORE = {
    "rootPath": "/srv/svc",
    "componentsRoot": "/srv/svc/components",
    "storage": {"path": "/srv/svc/database", "blobPaths": ["/srv/svc/blobs", "/fast/blobs"], "backupPath": "backup"},
    "operationsApi": {"network": {"domainSocket": "/srv/svc/operations-server"}, "importRoots": ["/srv/svc/import"]},
    "logging": {"root": "/srv/svc/log", "path": "/srv/svc-log/svc.log"},
    "tls": [{"certificate": "/srv/svc/keys/a.pem", "host": "/srv/svc/x"}],
    "databases": {"shop": {"path": "/srv/svc/shop"}},
    "shop": {"package": "/srv/svc/package", "logging": {"path": "/srv/svc/log/shop.log"}},
    "log_path": "/srv/svc/log",
}
AFTER = {
    "rootPath": "/srv/svc",
    "componentsRoot": "components",
    "storage": {"path": "database", "blobPaths": ["blobs", "/fast/blobs"], "backupPath": "backup"},
    "operationsApi": {"network": {"domainSocket": "operations-server"}, "importRoots": ["import"]},
    "logging": {"root": "log", "path": "/srv/svc-log/svc.log"},
    "tls": [{"certificate": "keys/a.pem", "host": "/srv/svc/x"}],
    "databases": {"shop": {"path": "shop"}},
    "shop": {"package": "/srv/svc/package", "logging": {"path": "log/shop.log"}},
    "log_path": "log",
}


def test_paths_below_the_former_root() -> None:
    assert relocated(BEFORE, Path("/copy")) == AFTER
    assert relocated(AFTER, Path("/copy")) is AFTER
    assert relocated(BEFORE, Path("/srv/svc")) is BEFORE


@pytest.mark.parametrize("stated", [None, "", 5, [], "srv/svc", "\0", "/srv/other"])
def test_other_documents_stay_as_they_are(stated: Any) -> None:
    document = {"rootPath": stated, "storage": {"path": "/srv/svc/database"}}
    assert relocated(document, Path("/copy")) is document


def test_a_copy_has_its_own_paths(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    document = {
        "rootPath": str(tmp_path / "original"),
        "storage": {"path": str(tmp_path / "original" / "database")},
        "http": {"port": 9926},
    }
    write_document(copy / "svc-config.yaml", document)
    for options in ({}, {"ROOTPATH": str(copy)}, {"ROOTPATH": str(copy), "HTTP_PORT": "1"}):
        config = load_config(copy, options=options)
        assert config.storage.path == copy / "database"
        assert reread(config).storage.path == copy / "database"
    assert Config.from_document(document, copy).storage.path == copy / "database"
    assert read_document(copy / "svc-config.yaml") == document
    load_config(copy, environ={"SVC_CONFIG_JSON": '{"http": {"port": 1}}'})  # which is written into the file, and with it the path
    assert read_document(copy / "svc-config.yaml")["storage"]["path"] == "database"
