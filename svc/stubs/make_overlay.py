"""Makes the types of what applications get from svc: `python -m svc.stubs.make_overlay` writes `overlay/` from `templates/` and the code.

A class of a template whose docstring is `svc.api.table.Table: keys, get_property` is that class of the code: its docstring, and these members
with their signatures, types and docstrings. What is written out below is for type checkers only: generics, overloads, and the types of
queries and verbs, which follow from the schema of an application; such a member without a docstring has the one of the code. A docstring between
definitions, `svc.api: get_context, get_user`, gives functions of a module in the same way.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path

OVERLAY, TEMPLATES = Path(__file__).with_name("overlay"), Path(__file__).with_name("templates")
FILES = {"types.pyi": "_types.pyi", "testing.pyi": "testing.pyi"}
"""Template -> what is made of it."""

OUTSIDE = {
    "AnyContext | None": "Any",
    "Caller | None": "User | None",
    "ClusterNode": "Any",
    "Context | None": "Any",
    "Key": "Any",
    "Source[_U]": "AsyncIterable[_U] | Iterable[_U]",
    "Version": "float",
    "Properties": "Mapping[int, Any]",
}
"""Types of the code that applications do not know -> what they are to them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    for template, file in FILES.items():
        (OVERLAY / file).write_text(make(TEMPLATES / template), "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(OVERLAY)], check=True)


def make(template: Path) -> str:
    """The text of a file of `overlay/`, before it is formatted. Raises LookupError for a name that the code does not have."""
    text = template.read_text("utf-8")
    lines = text.splitlines()
    made: list[str] = []
    done = 0

    def keep(until: int) -> None:
        nonlocal done
        made.extend(lines[done:until])
        done = until

    for node in ast.parse(text).body[1:]:
        if isinstance(node, ast.ClassDef) and (found := _reference(node.body[0])):
            keep(node.body[0].lineno - 1)
            done = node.body[0].end_lineno or 0
            home, names = found
            classes = _classes(home)
            made.extend(_docstring(classes[0], "    "))
            seen = set()
            for member in node.body[1:]:
                keep(member.end_lineno or 0)
                if isinstance(member, Function) and member.name not in seen:
                    seen.add(member.name)
                    if made[-1].endswith(": ...") and (documentation := _documentation(classes, member.name)):
                        made[-1] = made[-1].removesuffix(" ...")
                        made.extend(documentation)
            for name in names:
                made.extend(_stub(_member(classes, name), "    "))
        elif found := _reference(node):
            keep(node.lineno - 1)
            done = node.end_lineno or 0
            module, names = found
            for name in names:
                made.extend(_stub(_function(module, name), ""))
    keep(len(lines))
    return "\n".join(made) + "\n"


def _reference(node: ast.stmt) -> tuple[str, list[str]] | None:
    """What a docstring of a template refers to, and the names; None if it is an ordinary one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        found = re.fullmatch(r"(svc(?:\.\w+)+)(?::([\s\w,]+))?", str(node.value.value))
        return None if found is None else (found[1], re.findall(r"\w+", found[2] or ""))
    return None


@cache
def _tree(module: str) -> ast.Module:
    file = import_module(module).__file__
    assert file is not None
    return ast.parse(Path(file).read_text("utf-8"))


def _classes(home: str) -> list[ast.ClassDef]:
    """The class of this name, then those of ours that it is derived from."""
    module, _, name = home.rpartition(".")
    kind: type = getattr(import_module(module), name)
    return [
        node
        for each in kind.__mro__
        if each.__module__.startswith("svc.")
        for node in _tree(each.__module__).body
        if isinstance(node, ast.ClassDef) and node.name == each.__name__
    ]


def _member(classes: list[ast.ClassDef], name: str) -> Function:
    for node in classes:
        for member in node.body:
            if isinstance(member, Function) and member.name == name:
                return member
    raise LookupError(f"{classes[0].name}.{name}")


def _function(module: str, name: str) -> Function:
    function = getattr(import_module(module), name)
    return next(node for node in _tree(function.__module__).body if isinstance(node, Function) and node.name == name)


def _documentation(classes: list[ast.ClassDef], name: str) -> list[str]:
    try:
        return _docstring(_member(classes, name), "        ")
    except LookupError:
        return []


def _stub(node: Function, indent: str) -> Iterator[str]:
    arguments = re.sub(r"(?<![\w.])(self|cls): [^,)]+", r"\1", _outside(ast.unparse(_Defaults().visit(deepcopy(node.args)))))
    returns = "" if node.returns is None else f" -> {_outside(ast.unparse(node.returns))}"
    for decorator in node.decorator_list:
        if ast.unparse(decorator) in ("property", "classmethod", "staticmethod"):
            yield f"{indent}@{ast.unparse(decorator)}"
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    documentation = _docstring(node, f"{indent}    ")
    yield f"{indent}{start} {node.name}({arguments}){returns}:{'' if documentation else ' ...'}"
    yield from documentation


class _Defaults(ast.NodeTransformer):
    """Defaults that have names are `...`."""

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        node.defaults = [ast.Constant(...) if isinstance(each, ast.Name) else each for each in node.defaults]
        node.kw_defaults = [ast.Constant(...) if isinstance(each, ast.Name) else each for each in node.kw_defaults]
        return node


def _outside(annotations: str) -> str:
    for name, outside in OUTSIDE.items():
        annotations = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", outside, annotations)
    return annotations


def _docstring(node: ast.ClassDef | Function, indent: str) -> list[str]:
    text = ast.get_docstring(node)
    if text is None:
        return []
    lines = re.sub(r"\s*\((?:spec|architecture)[^)]*\)", "", text).split("\n")
    lines[0] = f'"""{lines[0]}'
    lines[-1] += '"""' if len(lines) == 1 else f'\n{indent}"""'
    return [f"{indent}{line}".rstrip() for line in lines]


if __name__ == "__main__":
    main()
