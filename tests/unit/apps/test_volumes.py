"""An application in a volume of Kubernetes: all its names are links through `..data`, and an update exchanges that link."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from svc.apps.files import FileSet, is_of_volume
from svc.server.file_tree import FileTree
from tests.support.node import Node
from tests.support.volumes import write_volume

CONFIG = """
loadEnv: {files: .env}
rest: true
graphqlSchema: {files: '**/*.graphql'}
resources: {files: '**/*.py'}
roles: {files: roles.yaml}
dataLoader: {files: 'data/*.yaml'}
static: {files: 'web/**', index: true}
scheduler: {jobs: [{name: nightly, handler: 'jobs.py#run', interval: 24h}]}
"""
FILES = {
    "config.yaml": CONFIG,
    "schema.graphql": "type Seat @table @export { id: ID @primaryKey  stock: Int }",
    "more/hall.graphql": "type Hall @table @export { id: ID @primaryKey }",
    "resources.py": """
        import os
        from svc import Resource
        import helpers
        from shop import prices

        class Greeting(Resource):
            def get(self, target=None):
                return [helpers.text, prices.price, os.environ.get("SVC_VOLUME_TEST")]
    """,
    "helpers.py": "text = 'one'",
    "jobs.py": "def run(job): pass",
    "shop/prices.py": "from svc import Resource\nprice = 1\nclass Price(Resource):\n    def get(self, target=None):\n        return price",
    "roles.yaml": "clerk: {data: {tables: {Seat: {read: true}}}}",
    ".env": "SVC_VOLUME_TEST=set",
    "data/seats.yaml": "table: Seat\nrecords: [{id: a, stock: 1}]",
    "web/index.html": "<p>one</p>",
    "web/css/site.css": "p {}",
}


def write(directory: Path, **changed: str) -> None:
    write_volume(directory, {name: dedent(text) for name, text in (FILES | changed).items()})


def get(node: Node, target: str) -> tuple[int, bytes]:
    status, _, body = node.connect().ask("GET", target)
    return status, body


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SVC_VOLUME_TEST", "")
    monkeypatch.delenv("SVC_VOLUME_TEST")
    write(tmp_path / "shop")
    return tmp_path / "shop"


def test_all_entries_are_loaded_and_an_exchange_of_the_volume_takes_effect(volume: Path, tmp_path: Path) -> None:
    node = Node(tmp_path / "store", volume)
    try:
        assert node.app.status == "healthy", {key: entry.messages for key, entry in node.app.entries.items()}
        tree = FileTree(volume.resolve())
        assert not [name for name in tree.look() if ".." in name]
        assert get(node, "/Greeting/") == (200, b'["one",1,"set"]')
        assert get(node, "/shop/Price/") == (200, b"1")
        assert get(node, "/Seat/a?select(stock)")[1] == b"1"
        assert get(node, "/Hall/") == (200, b"[]")
        assert get(node, "/") == (200, b"<p>one</p>")
        assert get(node, "/css/site.css") == (200, b"p {}")

        changes: dict[str, Any] = {
            "helpers.py": "text = 'two'",
            "shop/prices.py": FILES["shop/prices.py"].replace("price = 1", "price = 2"),
            "schema.graphql": FILES["schema.graphql"].replace("Int }", "Int  row: Int }"),
            "data/seats.yaml": "table: Seat\nrecords: [{id: a, stock: 2, row: 7}]",
            "web/index.html": "<p>two</p>",
        }
        write(volume, **changes)
        told = {str(volume.resolve() / name) for name in ("..data", "..data_tmp", *(path.name for path in volume.glob("..2026*")))}
        changed = tree.look_at(tree.names_of(told))
        assert set(changes) <= set(changed) and not [name for name in changed if ".." in name]
        assert node.run(node.applications.change("shop", changed, reloads_code=True)) == []
        assert node.app.status == "healthy", {key: entry.messages for key, entry in node.app.entries.items()}
        assert get(node, "/Greeting/") == (200, b'["two",2,"set"]')
        assert get(node, "/shop/Price/") == (200, b"2")
        assert get(node, "/") == (200, b"<p>two</p>")
        assert get(node, "/Seat/a?select([stock,row])")[1] == b"[2,7]"
    finally:
        node.close()


def test_what_the_volume_has_for_itself_is_at_no_address(volume: Path, tmp_path: Path) -> None:
    (volume / "..data" / "secret.txt").write_text("secret")
    (volume / "web-link").symlink_to("..data/secret.txt")
    node = Node(tmp_path / "store", volume)
    try:
        held = os.readlink(volume / "..data")
        for target in (
            f"/{held}/web/index.html",
            "/..data/web/index.html",
            "/%2e%2e" + held[2:] + "/web/index.html",
            "/web-link",
            "/secret.txt",
        ):
            assert get(node, target)[0] in (400, 404), target
    finally:
        node.close()


def test_a_link_to_a_directory_is_followed_in_a_volume_only_and_once(volume: Path) -> None:
    (volume / "..data" / "again").symlink_to("..data/shop")  # as no volume has it: relative to what holds it there is none
    (volume / "outside").symlink_to("..")
    (volume / "..data" / "shop" / "..data").symlink_to("..")
    (volume / "..data" / "shop" / "loop").symlink_to("..data/shop")
    names = [match.name for match in FileSet(volume, "**/*.py").matches()]
    assert names == ["helpers.py", "jobs.py", "resources.py", "shop/prices.py"]
    assert is_of_volume(volume.resolve() / "shop") and not is_of_volume(volume.resolve() / "outside")
    tree = FileTree(volume.resolve())
    tree.look()
    assert sorted(name for name in tree.files if name.endswith(".py")) == names


def test_exchanges_leave_nothing_behind(volume: Path) -> None:
    tree = FileTree(volume.resolve())
    tree.look()
    for number in range(3):
        write(volume, **{"helpers.py": f"text = {number}"})
        assert "helpers.py" in tree.look_at(["..data"])
        assert len(tree.links) <= len(FILES)
        assert all(os.path.exists(directory) for directory in tree.watched())
