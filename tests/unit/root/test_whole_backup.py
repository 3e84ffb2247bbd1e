"""Backups of a whole installation, there and back, and what is refused."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from svc.cli.arguments import parse_arguments
from svc.cli.whole_backup import backup_command
from svc.config import Config
from svc.config.document import read_document, write_document
from svc.errors import ConfigError
from svc.root.whole_backup import make_backup, restore_backup
from svc.store import Store, StoreSettings
from svc.store.backup import BadBackup, Watch
from svc.store.blobs import create_blob
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode

DOG = TableDefinition("Dog", attributes=(Attribute("id", primary_key=True), Attribute("photo", "Blob")))
PHOTO = b"photo " * 5000
FILES = {
    "components/shop/schema.graphql": "type Dog { id: ID }",
    "components/shop/data.csv": "id\n1\n",
    "components/.deployments/shop/1/x.py": "X = 1",
    "keys/privateKey.pem": "secret",
    "import/rows.csv": "id\n",
    "custom.txt": "mine",
}
LEFT_OUT = {"log/svc.log": "lines", "backup/data/1/manifest.json": "{}", "tmp/x": "x", "svc.lock": "", "svc.pid": "1"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a stopped server, with two databases, an application and a link."""
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "r"
    for name, text in (FILES | LEFT_OUT).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "components" / "link").symlink_to(".deployments/shop/1")
    (root / "keys" / "privateKey.pem").chmod(0o600)
    write_document(root / "svc-config.yaml", {"rootPath": str(root), "storage": {"path": str(root / "database")}})
    store = Store(root / "database", StoreSettings(blob_paths=(root / "blobs",)))
    for name in ("system", "data"):
        table = store.open_database(name).define_table(DOG)
        transaction = store.begin()
        transaction.put(table, name, {"id": name, "photo": create_blob(PHOTO, type="image/png")})
        transaction.apply()
        store.commit_turn()
    store.close()
    return root


def configuration(root: Path, file: Path | None = None) -> Config:
    return Config.from_document(read_document(file or root / "svc-config.yaml"), root)


@contextmanager
def quietly(title: str) -> Iterator[Watch]:
    yield Watch()


def restored(directory: Path, root: Path) -> Any:
    return restore_backup(directory, root, lambda file: configuration(root, file), quietly)


def content(root: Path) -> dict[str, Any]:
    """What is in all databases."""
    found = {}
    store = Store(root / "database", StoreSettings(blob_paths=(root / "blobs",)))
    try:
        for name, database in store.databases.items():
            table = database.tables["Dog"]
            found[name] = [(decode(raw)["id"], decode(raw)["photo"].read()) for _, raw in table.scan(database.snapshot())]
    finally:
        store.close()
    return found


def test_there_and_back(root: Path, tmp_path: Path) -> None:
    backup = make_backup(configuration(root), tmp_path / "b", quietly)
    assert backup.databases == ["system", "data"] and backup.outside == []
    other = tmp_path / "elsewhere" / "r"
    assert restored(tmp_path / "b", other) == backup
    assert content(other) == content(root) == {name: [(name, PHOTO)] for name in ("system", "data")}
    for name, text in FILES.items():
        assert (other / name).read_text() == text
    assert not [name for name in LEFT_OUT if (other / name).exists()]
    assert os.readlink(other / "components" / "link") == ".deployments/shop/1"
    assert (other / "keys" / "privateKey.pem").stat().st_mode & 0o777 == 0o600
    config = configuration(other)
    assert (config.root, config.storage.path) == (other, other / "database"), "paths below the old root are those below the new one"
    for name in ("", "files.tar", "backup.json", "databases/data"):
        assert (tmp_path / "b" / name).stat().st_mode & 0o077 == 0, name


def test_by_commands(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        status = backup_command(parse_arguments(["backup", *words]))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    at = ("--ROOTPATH", str(root))
    status, out, err = run("all", str(tmp_path / "b"), *at)
    assert (status, out) == (0, f"{tmp_path / 'b'}: system, data, configuration, keys and deployed applications of {root}\n")
    assert "keep it as safe as the server" in err
    assert run("all", str(tmp_path / "b"), *at) == (1, "", f"Error: {tmp_path / 'b'} is not empty ('backup.json'): name a new directory\n")
    assert run("restore", str(tmp_path / "b"), *at)[2] == f"Error: {root} is not empty ('backup'): name a new directory\n"
    status, out, err = run("restore", str(tmp_path / "b"), "--ROOTPATH", str(tmp_path / "new"))
    assert (status, err) == (0, "") and out.startswith(
        f"{tmp_path / 'new'}: system, data, configuration, keys and deployed applications, as of "
    )
    status, out, err = run("restore", str(tmp_path / "nothing"), "--ROOTPATH", str(tmp_path / "new2"))
    assert status == 1 and "backup.json is missing" in err


def test_applications_and_certificates_elsewhere(root: Path, tmp_path: Path) -> None:
    elsewhere, certificate = tmp_path / "apps", tmp_path / "c.pem"
    (elsewhere / "shop").mkdir(parents=True)
    (elsewhere / "shop" / "x.py").write_text("X = 1")
    certificate.write_text("pem")
    document = read_document(root / "svc-config.yaml") | {"componentsRoot": str(elsewhere), "tls": {"certificate": str(certificate)}}
    write_document(root / "svc-config.yaml", document)
    backup = make_backup(configuration(root), tmp_path / "b", quietly)
    assert (sorted(backup.archives), backup.outside) == (["components.tar", "files.tar"], [str(certificate)])
    with pytest.raises(ConfigError, match="apps is not empty"):
        restored(tmp_path / "b", tmp_path / "r2")
    elsewhere.rename(tmp_path / "moved")
    restored(tmp_path / "b", tmp_path / "r3")
    assert (elsewhere / "shop" / "x.py").read_text() == "X = 1"


def test_keys_of_tokens_beside_databases_elsewhere(root: Path, tmp_path: Path) -> None:
    storage = tmp_path / "shared"
    (root / "database").rename(storage)
    (storage / ".keys").mkdir(mode=0o700)
    (storage / ".keys" / ".jwtPrivate.key").write_text("secret")
    document = read_document(root / "svc-config.yaml") | {"storage": {"path": str(storage)}}
    write_document(root / "svc-config.yaml", document)
    backup = make_backup(configuration(root), tmp_path / "b", quietly)
    assert sorted(backup.archives) == ["files.tar", "keys.tar"] and sorted(backup.databases) == ["data", "system"]
    storage.rename(tmp_path / "lost")
    restored(tmp_path / "b", tmp_path / "r2")
    assert (storage / ".keys" / ".jwtPrivate.key").read_text() == "secret" and (storage / ".keys").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda b: (b / "files.tar").write_bytes((b / "files.tar").read_bytes()[:-1] + b"x"), "other content"),
        (lambda b: (b / "files.tar").unlink(), "files.tar is missing"),
        (lambda b: (b / "backup.json").unlink(), "backup.json is missing"),
        (lambda b: (b / "backup.json").write_text("{"), "cannot be read"),
        (lambda b: (b / "databases" / "data" / "1" / "database" / "data.mdb").write_bytes(b"x" * 8192), "data.mdb"),
        (lambda b: next((b / "databases" / "data" / "1" / "blobs").rglob("*/*/???")).unlink(), "blobs"),
    ],
)
def test_a_damaged_backup_makes_no_installation(root: Path, tmp_path: Path, damage: Any, text: str) -> None:
    make_backup(configuration(root), tmp_path / "b", quietly)
    damage(tmp_path / "b")
    with pytest.raises(BadBackup, match=text):
        restored(tmp_path / "b", tmp_path / "new")
    assert not (tmp_path / "new" / "svc-config.yaml").exists()


def test_a_backup_of_a_later_version(root: Path, tmp_path: Path) -> None:
    make_backup(configuration(root), tmp_path / "b", quietly)
    file = tmp_path / "b" / "backup.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 2, "version": "9.0"}))
    with pytest.raises(BadBackup, match=r"made by svc 9\.0, in a format that svc .* does not know"):
        restored(tmp_path / "b", tmp_path / "new")


def test_databases_that_are_there_are_not_replaced(root: Path, tmp_path: Path) -> None:
    make_backup(configuration(root), tmp_path / "b", quietly)
    store = Store(tmp_path / "new" / "database")
    store.open_database("data")
    store.close()
    with pytest.raises(ConfigError, match="new is not empty"):
        restored(tmp_path / "b", tmp_path / "new")


def test_what_is_interrupted_is_no_backup(root: Path, tmp_path: Path) -> None:
    @contextmanager
    def failing(title: str) -> Iterator[Watch]:
        if title == "data":
            raise OSError(28, "No space left on device")
        yield Watch()

    with pytest.raises(OSError, match="No space"):
        make_backup(configuration(root), tmp_path / "b", failing)
    assert not (tmp_path / "b" / "backup.json").exists()
    make_backup(configuration(root), tmp_path / "b2", quietly)
    with pytest.raises(OSError, match="No space"):
        restore_backup(tmp_path / "b2", tmp_path / "new", lambda file: configuration(tmp_path / "new", file), failing)
    assert not (tmp_path / "new" / "svc-config.yaml").exists(), "it is no installation, and is not started"


def test_links_of_an_archive_lead_nowhere_else(root: Path, tmp_path: Path) -> None:
    make_backup(configuration(root), tmp_path / "b", quietly)
    archive = tmp_path / "b" / "files.tar"
    with tarfile.open(archive, "a") as opened:
        member = tarfile.TarInfo("../evil")
        opened.addfile(member)
    manifest = tmp_path / "b" / "backup.json"
    digest = sha256(archive.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"archives": {"files.tar": digest}}))
    with pytest.raises(BadBackup, match="evil"):
        restored(tmp_path / "b", tmp_path / "deep" / "new")
    assert not (tmp_path / "deep" / "evil").exists()


def test_odd_entries(root: Path, tmp_path: Path) -> None:
    (root / "loop").symlink_to("loop")
    odd = os.fsencode(root / "components") + b"/odd \xff\n"
    with open(odd, "w") as stream:
        stream.write("odd")
    os.link(odd, root / "components" / "hard")
    os.mkfifo(root / "components" / "pipe")
    (root / "components" / "tmp").mkdir()
    make_backup(configuration(root), tmp_path / "b", quietly)
    restored(tmp_path / "b", tmp_path / "new")
    components = tmp_path / "new" / "components"
    assert os.readlink(tmp_path / "new" / "loop") == "loop" and (components / "hard").read_text() == "odd"
    assert os.path.samefile(os.fsencode(components) + b"/odd \xff\n", components / "hard")
    assert not (components / "pipe").exists() and (components / "tmp").is_dir() and not (tmp_path / "new" / "tmp").exists()


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file or directory")])
def test_a_directory_that_cannot_be_read(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """One that is removed meanwhile is left out; without one that is there, there is no backup."""
    original = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(root / "keys"):
            raise error
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    if isinstance(error, FileNotFoundError):
        make_backup(configuration(root), tmp_path / "b", quietly)
    else:
        with pytest.raises(PermissionError):
            make_backup(configuration(root), tmp_path / "b", quietly)
    assert (tmp_path / "b" / "backup.json").exists() == isinstance(error, FileNotFoundError)


def test_a_file_that_becomes_shorter_is_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = tarfile.TarFile.gettarinfo

    def longer(self: tarfile.TarFile, *arguments: Any, **options: Any) -> Any:
        member = original(self, *arguments, **options)
        if member is not None and member.name == "custom.txt":
            member.size += 1
        return member

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", longer)
    with pytest.raises(OSError, match="became shorter") as raised:
        make_backup(configuration(root), tmp_path / "b", quietly)
    assert raised.value.filename == str(root / "custom.txt") and not (tmp_path / "b" / "backup.json").exists()


def test_blobs_of_another_installation_are_not_shared(root: Path, tmp_path: Path) -> None:
    """A directory outside the root is the same for both."""
    document = read_document(root / "svc-config.yaml") | {"storage": {"path": "database", "blobPaths": [str(tmp_path / "blobs")]}}
    write_document(root / "svc-config.yaml", document)
    (root / "blobs").rename(tmp_path / "blobs")
    make_backup(configuration(root), tmp_path / "b", quietly)
    with pytest.raises(ConfigError, match="blobs of 'system': move them away"):
        restored(tmp_path / "b", tmp_path / "new")
    assert not (tmp_path / "new" / "svc-config.yaml").exists()
    (tmp_path / "blobs").rename(tmp_path / "moved")
    restored(tmp_path / "b", tmp_path / "new2")
    assert (tmp_path / "blobs" / "data").is_dir()
