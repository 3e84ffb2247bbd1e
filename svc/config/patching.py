"""A changed document as YAML text that keeps what its owner wrote: comments, order, quotes (spec: configuration §1, hand edits).

Single values are replaced in place, new ones added behind their siblings, removed ones taken out with the comment on their line. For anything else -
values over several lines, aliases - and if the result does not parse to the wanted document, the whole file is rewritten.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from svc.config.document import Document, MarkedDocument, parse_marked, render_document
from svc.errors import ConfigError


class _TooDifficult(Exception):
    """This change is not made in place."""


def patched_text(marked: MarkedDocument, after: Document) -> str:
    """The text of `marked` with the changes that lead to `after`; comments are kept if that can be done safely."""
    try:
        text = _Patch(marked.text).apply(marked.document, after)
        if parse_marked(text, "").document == after:
            return text
    except (_TooDifficult, ConfigError):
        pass
    return render_document(after)


class _Patch:
    """Collects (start, end, new text) and applies them from the end, so that no position moves before it is used."""

    def __init__(self, text: str) -> None:
        import yaml

        self.text = text
        self.edits: list[tuple[int, int, str]] = []
        # The C parser counts positions in bytes where there is text beyond ASCII.
        self.root = yaml.compose(text, Loader=yaml.SafeLoader)

    def apply(self, before: Document, after: Document) -> str:
        if self.root is None:
            return self.text + ("" if not self.text or self.text.endswith("\n") else "\n") + render_document(after)
        self._mapping(self.root, before, after, 0)
        text = self.text
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2], reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _mapping(self, node: Any, before: Document, after: Document, depth: int) -> None:
        if node.id != "mapping" or any(key.value == "<<" for key, _ in node.value):
            raise _TooDifficult
        nodes = {str(key.value): value for key, value in node.value}
        removed = before.keys() - after.keys()
        if removed:
            if len(removed) == len(before) or len(nodes) < len(node.value):  # nothing stays, or a key is there twice
                raise _TooDifficult
            self._remove(node, removed)
        for name, value in before.items():
            if name in removed:
                continue
            new = after[name]
            if new == value and type(new) is type(value):
                continue
            if isinstance(new, dict) and isinstance(value, dict) and value:
                self._mapping(nodes[name], value, new, depth + 1)
            else:
                self._replace(nodes[name], new)
        added = {name: value for name, value in after.items() if name not in before}
        if added:
            self._add(node, added)

    def _replace(self, node: Any, value: object) -> None:
        start, end = node.start_mark, node.end_mark
        if start.line != end.line or (node.id != "scalar" and not node.flow_style):
            raise _TooDifficult
        space = " " if start.index == end.index else ""  # a key without a value
        self.edits.append((start.index, end.index, space + _flow(value)))

    def _remove(self, node: Any, names: Set[str]) -> None:
        pairs = node.value
        for number, (key, value) in enumerate(pairs):
            if str(key.value) not in names:
                continue
            last = _last_of(value, in_sequences=True)
            if node.flow_style:
                if node.end_mark.line != node.start_mark.line or len(names) > 1:
                    raise _TooDifficult
                if number + 1 < len(pairs):
                    self.edits.append((key.start_mark.index, pairs[number + 1][0].start_mark.index, ""))
                else:
                    self.edits.append((pairs[number - 1][1].end_mark.index, value.end_mark.index, ""))
                continue
            if last.id == "scalar" and last.style in ("|", ">"):
                raise _TooDifficult
            start = self.text.rfind("\n", 0, key.start_mark.index) + 1
            end = self.text.find("\n", last.end_mark.index) + 1 or len(self.text)
            if self.text[start : key.start_mark.index].strip():
                raise _TooDifficult
            self.edits.append((start, end, ""))

    def _add(self, node: Any, added: Document) -> None:
        if node.flow_style:
            if node.end_mark.line != node.start_mark.line:
                raise _TooDifficult
            text = ", ".join(f"{_flow(name)}: {_flow(value)}" for name, value in added.items())
            end = node.end_mark.index - 1
            self.edits.append((end, end, f", {text}" if node.value else text))
            return
        last = _last_of(node)
        if (last.id == "sequence" and not last.flow_style) or (last.id == "scalar" and last.style in ("|", ">")):
            raise _TooDifficult
        line_end = self.text.find("\n", last.end_mark.index)
        at = len(self.text) if line_end < 0 else line_end
        indent = " " * node.start_mark.column
        block = render_document(added).rstrip("\n").split("\n")
        self.edits.append((at, at, "".join(f"\n{indent}{line}" for line in block)))


def _last_of(node: Any, *, in_sequences: bool = False) -> Any:
    """The last value below a block mapping, or a block sequence: the marks at the ends of these themselves are behind the comments that follow."""
    while node.value and not getattr(node, "flow_style", True) and (node.id == "mapping" or (node.id == "sequence" and in_sequences)):
        node = node.value[-1][1] if node.id == "mapping" else node.value[-1]
    return node


def _flow(value: object) -> str:
    """A value on one line."""
    import yaml

    text = str(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"), sort_keys=False))
    return text.removesuffix("\n").removesuffix("\n...").strip()
