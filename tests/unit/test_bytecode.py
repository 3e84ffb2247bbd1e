"""svc.bytecode: whether a module came from a compiled file that fits, and what is said if none did."""

from __future__ import annotations

import compileall
import importlib.util
import os
import py_compile
import shlex
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from svc import bytecode
from svc.bytecode import SERVED, advice, is_cached, slow_start

Invalidation = py_compile.PycInvalidationMode


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    slow_start.cache_clear()
    yield
    slow_start.cache_clear()


def spec_of(path: Path) -> ModuleSpec:
    path.write_text("x = 1\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.cached is not None
    return spec


@pytest.mark.parametrize("mode", [Invalidation.TIMESTAMP, Invalidation.CHECKED_HASH, Invalidation.UNCHECKED_HASH])
def test_a_compiled_file_that_fits(tmp_path: Path, mode: Invalidation) -> None:
    spec = spec_of(tmp_path / "a.py")
    assert not is_cached(spec)
    py_compile.compile(str(tmp_path / "a.py"), invalidation_mode=mode)
    assert is_cached(spec)


def test_one_of_another_time_or_size_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    spec = spec_of(path)
    py_compile.compile(str(path), invalidation_mode=Invalidation.TIMESTAMP)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 2_000_000_000))  # as a copy may have another one
    assert not is_cached(spec)
    path.write_text("x = 12\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not is_cached(spec)
    path.write_text("x = 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert is_cached(spec), "as Python itself would take it"


@pytest.mark.parametrize("end", [0, 3, 4, 15])
def test_one_that_is_cut_or_of_another_python_does_not_fit(tmp_path: Path, end: int) -> None:
    spec = spec_of(tmp_path / "a.py")
    compiled = Path(py_compile.compile(str(tmp_path / "a.py"), doraise=True))
    data = compiled.read_bytes()
    compiled.write_bytes(data[:end])
    assert not is_cached(spec)
    compiled.write_bytes(bytes((data[0] ^ 1,)) + data[1:])
    assert not is_cached(spec)


def test_a_module_without_a_source_file_or_a_place_for_compiled_ones(tmp_path: Path) -> None:
    assert is_cached(ModuleSpec("a", None))
    assert sys.__spec__ is not None and is_cached(sys.__spec__)
    path = tmp_path / "a.py"
    spec = spec_of(path)
    py_compile.compile(str(path))
    assert is_cached(spec)
    assert not is_cached(ModuleSpec("a", SourceFileLoader("a", str(path)))), "of a Python that has no name for them"
    path.unlink()
    assert not is_cached(spec)


def loaded(monkeypatch: pytest.MonkeyPatch, directory: Path) -> list[Path]:
    """Modules of these names, in place of those of a server; returns their files."""
    paths = [directory / f"{name.rpartition('.')[2]}.py" for name in SERVED]
    for name, path in zip(SERVED, paths, strict=True):
        module = ModuleType(name)
        module.__spec__ = spec_of(path)
        monkeypatch.setitem(sys.modules, name, module)
    return paths


def test_a_start_is_slow_if_nothing_was_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = loaded(monkeypatch, tmp_path)
    said = slow_start()
    assert said is not None and said == advice(Path(bytecode.__file__).parent)
    py_compile.compile(str(paths[1]))
    assert slow_start() == said, "this process had to compile"
    slow_start.cache_clear()
    assert slow_start() is None, "one file was edited, perhaps"


def test_it_is_not_said_of_a_command_that_has_loaded_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SERVED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert slow_start() is None


@pytest.mark.parametrize(
    ("dont_write", "reason"), [(True, "PYTHONDONTWRITEBYTECODE or -B is set"), (False, "this process may not write it")]
)
def test_the_reason(monkeypatch: pytest.MonkeyPatch, dont_write: bool, reason: str) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", dont_write)
    monkeypatch.setattr(sys, "executable", "/opt/svc/bin/python")
    assert advice(Path("/src/svc")) == (
        "svc runs without cached bytecode, so the start takes two to three times as long: "
        f"/opt/svc/bin/python -m compileall -q /src/svc ({reason})"
    )


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("parent", ["site-packages", "dist-packages", "source tree"])
def test_the_command_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parent: str, prefix: bool) -> None:
    package, beside = tmp_path / parent / "svc", tmp_path / parent / "lmdb"
    for place in (package, beside):
        place.mkdir(parents=True)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled here") if prefix else None)
    ours, theirs = spec_of(package / "a.py"), spec_of(beside / "b.py")
    command = shlex.split(advice(package).rpartition(": ")[2].rpartition(" (")[0])
    at = command.index("-m")
    assert command[:at] == [sys.executable, *(["-X", f"pycache_prefix={sys.pycache_prefix}"] if prefix else [])]
    assert command[at + 1] == compileall.__name__
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "argv", command[at + 1 :])
    assert compileall.main()
    assert is_cached(ours)
    assert is_cached(theirs) is parent.endswith("-packages")
    assert (tmp_path / "compiled here").exists() is prefix


def test_the_command_compiles_for_the_same_optimisation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "flags", SimpleNamespace(optimize=2))
    assert f"{sys.executable} -OO -m compileall" in advice(tmp_path)
