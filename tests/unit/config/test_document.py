"""Reading and writing the YAML file."""

from pathlib import Path

import pytest

from svc.config.document import changed, merged, parse_marked, read_document, write_document, write_private
from svc.errors import ConfigError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    document = {"z": {"b": [1, None, "ü"], "a": True}, "a": "1d"}
    write_document(file, document)
    assert read_document(file) == document
    assert list(read_document(file)) == ["z", "a"]  # the order is its owner's
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_an_empty_file_is_an_empty_document_and_keys_are_text(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("# nothing\n")
    assert read_document(file) == {}
    file.write_text("shop: {ports: {80: a}}\n")
    assert read_document(file) == {"shop": {"ports": {"80": "a"}}}


@pytest.mark.parametrize(("text", "part"), [("- 1\n", "must hold a mapping"), ("a: [1\n", "not valid YAML"), ("a: \x00", "not valid YAML")])
def test_unusable_files_are_named(tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=part) as caught:
        read_document(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("http:\n  port: [1\n", " line 3, column 1 is not valid YAML: while parsing a flow sequence"),
        ("a: b: c\n", " line 1, column 5 is not valid YAML: mapping values are not allowed"),
        ("a: 2026-99-99\n", " is not valid YAML: month must be in 1..12"),
        ("a: !!timestamp x\n", " is not valid YAML: "),
        (f"a: {'1' * 5000}\n", " is not valid YAML: Exceeds the limit"),
        ("a: &a {b: *a}\n", " is nested too deeply, or a part of it contains itself"),
        ("a: &a [*a]\n", " is nested too deeply, or a part of it contains itself"),
        ("a: !!python/object:os.system {}\n", " line 1, column 4 is not valid YAML: could not determine a constructor"),
    ],
)
def test_what_cannot_be_parsed_is_placed(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_document(file)
    assert str(caught.value).startswith(str(file) + place)


def test_lines_of_keys_and_doubled_keys() -> None:
    marked = parse_marked("http:\n  port: 1\ntls:\n - certificate: a\n - {certificate: b}\nhttp: {port: 2}\nx: &x [1]\ny: *x\n", "f")
    assert marked.document == {"http": {"port": 2}, "tls": [{"certificate": "a"}, {"certificate": "b"}], "x": [1], "y": [1]}
    assert marked.lines[("http",)] == marked.lines[("http", "port")] == 6
    assert marked.lines[("tls[1]", "certificate")] == 5
    assert marked.lines[("y",)] == 8
    assert marked.doubled == [("http", (1, 6))]
    assert parse_marked("", "f").document == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read"):
        read_document(tmp_path / "none.yaml")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_private(file, b"old")
    with pytest.raises(TypeError):
        write_private(file, "text")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_changes_and_merges_leave_their_arguments_alone() -> None:
    document = {"http": {"port": 1}, "instances": 1}
    assert changed(document, {"http.cors": False, "instances.x": 2}) == {"http": {"port": 1, "cors": False}, "instances": {"x": 2}}
    assert merged(document, {"http": {"cors": True}, "instances": [1]}) == {"http": {"port": 1, "cors": True}, "instances": [1]}
    assert document == {"http": {"port": 1}, "instances": 1}
