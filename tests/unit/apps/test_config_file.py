"""svc.apps.config_file: a config.yaml that may hold anything has a message, and what is read of it is small."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.apps.config_file import overlooked, read_config
from svc.apps.files import FileSet
from svc.apps.roles_file import read_roles
from tests.support.leaks import open_files
from tests.support.node import Node

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "has more than 100000 values, or its aliases stand for more"),
        (MERGES, "has more than 100000 values, or its aliases stand for more"),
        ("static: &a [*a]", "has a value that contains itself"),
        ("static: &a {files: *a}", "has a value that contains itself"),
        ("a: " + "[" * 10_000, "is nested too deeply"),
        ("a: !!bool maybe", "has a value that is not what its tag says"),
        ("a: !!int ''", "has a value that is not what its tag says"),
        ("a: !!timestamp noon", "has a value that is not what its tag says"),
        ("a: " + "9" * 5000, "digits"),
        ("a: 2001-99-99", "month"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("- a", "must be a mapping of entries"),
        ("rest: true\nstatic: {}\nrest: {path: /x}", "has 'rest' in line 3 a second time, after line 1: put the two together"),
        ("static: {files: a,\n  files: b}", "has 'files' in line 2 a second time, after line 1"),
        ("? [a]\n: b", "unhashable"),
        ("#" * (1 << 20) + "#", "is larger than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_config(tmp_path)


def test_aliases_and_merge_keys_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("static: &a {files: web}\nother: {<<: *a, index: true}\nthird: *a\n")
    config = read_config(tmp_path)
    assert config == {"static": {"files": "web"}, "other": {"files": "web", "index": True}, "third": {"files": "web"}}


def test_a_pipe_or_a_directory_in_the_place_of_a_file_keeps_nothing_waiting(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    directory.mkdir()
    for name in ("config.yaml", "a.graphql"):
        os.mkfifo(directory / name)
    (directory / "b.graphql").mkdir()
    (directory / "c.graphql").write_text("type Plant @table @export { id: ID @primaryKey }")
    node = Node(tmp_path / "data", directory)
    assert node.app.entries["config"].messages == ["config.yaml: it is no regular file"]
    assert node.connect().ask("GET", "/Plant/")[0] == 503
    (directory / "config.yaml").unlink()
    node.run(node.applications.reload("app"))
    assert "a.graphql: it is no regular file" in node.app.entries["graphqlSchema"].messages
    assert node.connect().ask("GET", "/Plant/")[0] == 200
    node.close()
    assert not [file for file in open_files(os.getpid()) if file.startswith(str(directory))]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ('"*"', "the address '*/Plant' has more segments behind '*', which stands for all that follow"),
        ('":a/:a"', "the address ':a/:a/Plant' has a parameter without a name, or two of one name"),
        ('"\\ud800"', "the address '\\ud800/Plant' is no text: a part of a character stands alone in it"),
    ],
)
def test_addresses_that_cannot_be_leave_the_rest_served(tmp_path: Path, path: str, said: str) -> None:
    directory = tmp_path / "app"
    (directory / "web").mkdir(parents=True)
    (directory / "web" / "a.txt").write_text("hello")
    (directory / "schema.graphql").write_text("type Plant @table @export { id: ID @primaryKey }")
    (directory / "resources.py").write_text("class Own(Resource):\n    def get(self, query=None): return 1\n")
    (directory / "config.yaml").write_text("rest: true\ngraphqlSchema: true\nresources: true\nstatic: true\n")
    node = Node(tmp_path / "data", directory)
    (directory / "config.yaml").write_text(f"rest: {{path: {path}}}\ngraphqlSchema: true\nresources: true\nstatic: true\n")
    node.run(node.applications.reload("app"))
    assert said in node.app.entries["graphqlSchema"].messages[0] and not node.app.entries["graphqlSchema"].details
    assert node.connect().ask("GET", "/Own/")[0] == 200 == node.connect().ask("GET", "/Plant/")[0], "the version before goes on"
    node.run(node.applications.remove("app"))
    entries = node.run(node.applications.add(directory)).entries
    assert said in entries["graphqlSchema"].messages[0] and not entries["graphqlSchema"].details
    assert said.split("Plant")[0] in entries["resources"].messages[0]
    assert node.connect().ask("GET", "/a.txt")[2] == b"hello"
    node.close()


def test_a_module_that_can_have_no_name_is_said_to(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    (directory / "api").mkdir(parents=True)
    (tmp_path / "elsewhere.py").write_text("x = 1\n")
    (directory / "api" / "a.b.py").write_text("x = 1\n")
    (directory / "api" / "out.py").symlink_to(tmp_path / "elsewhere.py")
    (directory / "api" / "folder.py").mkdir()
    (directory / "config.yaml").write_text("resources: {files: 'api/*'}\n")
    node = Node(tmp_path / "data", directory)
    assert node.app.entries["resources"].messages == [
        "api/a.b.py: the name of a module, and of its directories, has no '.'",
        "api/out.py: it is a link to a file that is not in the directory of the application",
    ]
    node.close()


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a" * 20 + "b", "a" * 250),
        ("**/a/" * 20 + "b", "a/" * 500 + "c"),
        ("*" * 500 + "b", "a" * 250),
        ("**/*a*a*a*a*b/**/*a*a*a*b", "/".join(["a" * 100] * 30)),
    ],
)
def test_no_pattern_takes_long(tmp_path: Path, pattern: str, name: str) -> None:
    assert not FileSet(tmp_path, pattern).contains(name)


def test_members_of_brackets(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    def matched(pattern: str) -> str:
        return "".join(character for character in "abz-|&~[]^!/" if FileSet(tmp_path, pattern).contains(character))

    assert [matched(each) for each in ("[a-b]", "[!a-b]", "[||&&~~]", "[]a]", "[-a]", "[a-]", "[[]", "[!]]")] == [
        "ab", "z-|&~[]^!", "|&~", "a]", "a-", "a-", "[", "abz-|&~[^!",
    ]  # fmt: skip
    assert not recwarn.list
    with pytest.raises(ValueError, match=r"files: '\[z-a\]' is not a pattern: bad character range z-a"):
        FileSet(tmp_path, "[z-a]")


def test_aliases_of_roles_that_stand_for_too_much_are_a_fault(tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(BOMB + "gardener: {access: *i}\n")
    with pytest.raises(ValueError, match="its aliases stand for more"):
        read_roles(tmp_path / "roles.yaml")


def test_no_deeper_directories_are_read_than_a_pattern_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "web/b.py", "web/deep/c.py", "web/deep/deeper/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    read: list[str] = []
    iterdir = Path.iterdir

    def noted(path: Path) -> Iterator[Path]:
        read.append(path.relative_to(tmp_path.resolve()).as_posix())
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", noted)

    def names(pattern: str) -> tuple[list[str], list[str]]:
        read.clear()
        return [match.name for match in FileSet(tmp_path, pattern).matches()], list(read)

    assert names("*.py") == (["a.py"], ["."])
    assert names("*/*.py") == (["web/b.py"], [".", "web"])
    assert names("web/*/*.py") == (["web/deep/c.py"], ["web", "web/deep"])
    assert names("web/deep") == (["web/deep/c.py", "web/deep/deeper", "web/deep/deeper/d.py"], ["web/deep", "web/deep/deeper"])
    assert names("**/d.py")[0] == ["web/deep/deeper/d.py"]


@pytest.mark.parametrize(
    ("files", "config", "names"),
    [
        (["schema.graphql"], None, []),
        (["web/a.html"], None, []),
        ([], None, [""]),
        (["schema.gql", "resource.py"], None, [""]),
        (["schema.graphql", "resources.py", "roles.yaml"], "graphql: true", ["schema.graphql", "roles.yaml", "resources.py"]),
        (["schema.graphql", "resources.py"], "graphqlSchema: {files: '*.graphql'}\njsResource: {files: resources.py}", []),
        (["schema.graphql"], "graphqlSchema: false", []),
        (["resources.py"], "mine: {code: [resources.py]}", []),
        ([], "", []),
    ],
)
def test_what_a_configuration_leaves_out(tmp_path: Path, files: list[str], config: str | None, names: list[str]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    if config is not None:
        (tmp_path / "config.yaml").write_text(config)
    found = overlooked(tmp_path, read_config(tmp_path))
    assert len(found) == len(names) and all(
        f"{name} is not loaded" in text if name else "nothing to load" in text for name, text in zip(names, found, strict=True)
    )
