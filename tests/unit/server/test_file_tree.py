"""svc.server.file_tree: which files have changed since the last look."""

import os
from pathlib import Path

import pytest

from svc.server import file_tree
from svc.server.file_tree import FileTree


@pytest.fixture
def tree(tmp_path: Path) -> FileTree:
    for name in ("resources.py", "schema.graphql", "shop/prices.py", "shop/deep/a.txt", ".env", "node_modules/a/b.js", ".git/HEAD"):
        write(tmp_path / name)
    tree = FileTree(tmp_path)
    assert tree.look() == [".env", "resources.py", "schema.graphql", "shop/deep/a.txt", "shop/prices.py"]
    return tree


def write(path: Path, text: str = "one") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_directories_of_packages_and_of_version_control_are_not_looked_at(tree: FileTree) -> None:
    assert sorted(tree.directories) == ["", "shop", "shop/deep"]
    write(tree.root / "node_modules/a/c.js")
    write(tree.root / "__pycache__/resources.cpython-311.pyc")
    assert tree.look_at(["node_modules/a/c.js", "__pycache__/resources.cpython-311.pyc", "node_modules"]) == []
    assert tree.look() == []


@pytest.mark.parametrize("name", ["resources.py~", ".resources.py.swp", ".#resources.py", "#resources.py#", "4913", "a.py___jb_tmp___"])
def test_files_of_editors_are_not_looked_at(tree: FileTree, name: str) -> None:
    write(tree.root / name)
    assert tree.look_at([name]) == [] == tree.look()


def test_what_has_not_changed_is_not_named(tree: FileTree) -> None:
    assert tree.look_at(["resources.py", "shop", "nothing.py", ""]) == []
    write(tree.root / "resources.py", "two!")
    assert tree.look_at(["resources.py", "resources.py"]) == ["resources.py"]
    assert tree.look_at(["resources.py"]) == [] == tree.look()


def test_a_file_that_another_is_moved_over(tree: FileTree) -> None:
    write(tree.root / "new.tmp", "one")
    os.utime(tree.root / "new.tmp", ns=(1, (tree.root / "resources.py").stat().st_mtime_ns))
    os.replace(tree.root / "new.tmp", tree.root / "resources.py")
    assert tree.look_at(["resources.py"]) == ["resources.py"]


def test_a_file_that_is_overwritten_with_its_size_and_time(tree: FileTree) -> None:
    path = tree.root / "resources.py"
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tree.look_at(["resources.py"]) == ["resources.py"]


def test_a_directory_stands_for_all_in_it(tree: FileTree) -> None:
    write(tree.root / "more/a.py")
    write(tree.root / "more/deep/b.py")
    assert tree.look_at(["more"]) == ["more/a.py", "more/deep/b.py"]
    assert {"more", "more/deep"} <= tree.directories.keys()
    (tree.root / "more").rename(tree.root / "other")
    assert tree.look_at(["more", "other"]) == ["more/a.py", "more/deep/b.py", "other/a.py", "other/deep/b.py"]
    assert "more" not in tree.directories and "other/deep" in tree.directories


def test_a_file_becomes_a_directory_and_the_other_way_round(tree: FileTree) -> None:
    (tree.root / "resources.py").unlink()
    write(tree.root / "resources.py/inner.py")
    assert tree.look_at(["resources.py"]) == ["resources.py", "resources.py/inner.py"]
    for path in ("resources.py/inner.py",):
        (tree.root / path).unlink()
    (tree.root / "resources.py").rmdir()
    write(tree.root / "resources.py")
    assert tree.look_at(["resources.py"]) == ["resources.py", "resources.py/inner.py"]
    assert "resources.py" not in tree.directories


def test_links(tree: FileTree, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write(other / "first/config.yaml", "1")
    write(other / "second/config.yaml", "22")
    (tree.root / "loop").symlink_to("loop")
    (tree.root / "up").symlink_to("..")
    (tree.root / "nowhere").symlink_to("nothing")
    (tree.root / "..data").symlink_to(other / "first")
    (tree.root / "config.yaml").symlink_to("..data/config.yaml")
    assert tree.look_at(["loop", "up", "nowhere"]) == ["config.yaml"], "a link to a file is one, a link to a directory is not looked into"
    (tree.root / "..data").unlink()
    (tree.root / "..data").symlink_to(other / "second")
    assert tree.look_at(["..data"]) == ["config.yaml"]
    assert tree.look() == []


def test_the_target_of_a_link_is_watched(tree: FileTree, tmp_path_factory: pytest.TempPathFactory) -> None:
    shared = tmp_path_factory.mktemp("shared")
    write(shared / "base.graphql")
    (tree.root / "base.graphql").symlink_to(shared / "base.graphql")
    assert tree.look_at(tree.names_of([str(tree.root / "base.graphql")])) == ["base.graphql"]
    assert str(shared) in tree.watched()
    write(shared / "base.graphql", "two!")
    assert tree.look_at(tree.names_of([str(shared / "base.graphql"), str(shared / "other")])) == ["base.graphql"]
    (tree.root / "base.graphql").unlink()
    assert tree.look() == ["base.graphql"] and str(shared) not in tree.watched()


def test_the_directory_goes_and_comes_back(tree: FileTree) -> None:
    gone = tree.root.with_name("gone")
    tree.root.rename(gone)
    assert len(tree.look_at([""])) == 5
    assert not tree.is_there and tree.watched() == {}
    gone.rename(tree.root)
    assert len(tree.look()) == 5 and tree.is_there


def test_a_file_that_is_being_saved(tree: FileTree) -> None:
    write(tree.root / "resources.py", "")
    (tree.root / "schema.graphql").unlink()
    assert tree.look() == ["resources.py", "schema.graphql"]
    assert tree.is_unfinished("resources.py") and tree.is_unfinished("schema.graphql") and not tree.is_unfinished("shop/prices.py")


@pytest.mark.skipif(os.geteuid() == 0, reason="the super user may read everything")
def test_a_directory_that_may_not_be_read_is_left_out(tree: FileTree) -> None:
    (tree.root / "shop").chmod(0)
    try:
        assert tree.look() == ["shop/deep/a.txt", "shop/prices.py"]
    finally:
        (tree.root / "shop").chmod(0o700)


def test_names_that_are_no_text(tree: FileTree) -> None:
    with open(os.fsencode(tree.root) + b"/\xff.py", "wb"):
        pass
    write(tree.root / "line\nend.py")
    assert tree.look() == []


def test_there_is_a_limit(tree: FileTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "MAX_FILES", 10)
    for number in range(20):
        write(tree.root / f"more/{number}")
    tree.look()
    assert tree.is_cut and len(tree.files) == 10


def test_very_many_changes_are_one_look(tree: FileTree) -> None:
    names = [f"many/{number}.txt" for number in range(file_tree.MANY * 20)]
    for name in names:
        write(tree.root / name)
    assert tree.look_at(["many", *names]) == sorted(names)
    for name in names:
        (tree.root / name).unlink()
    assert tree.look_at(names) == sorted(names)
    assert tree.look() == []


def test_a_directory_that_is_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "data" / "log" / "svc.log")
    write(tmp_path / "resources.py")
    tree = FileTree(tmp_path, [tmp_path / "data", tmp_path, tmp_path.parent / "elsewhere"])
    assert tree.look() == ["resources.py"] and list(tree.directories) == [""]
    assert tree.ignores("data/log/svc.log") and not tree.ignores("database")
    assert tree.look_at(["data", "data/log/svc.log"]) == []
