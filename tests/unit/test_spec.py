"""docs/spec/ is what comments cite. Every cited section exists, and nothing is cited that a clone of the repository does not have."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc import errors
from svc.operations.registry import all_operations

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SPEC = DOCS / "spec"
DOCUMENTS = {path.stem: path for path in sorted(SPEC.glob("*.md")) if path.stem != "README"} | {"architecture": DOCS / "architecture.md"}
CITING = [
    path
    for folder in ("svc", "tests", "fuzz", "bench")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".toml", ".graphql") and path != Path(__file__)
]

_NAME = "|".join(sorted(DOCUMENTS, key=len, reverse=True))
_SECTION = r"§\d+(?:\.\d+)*"
# `http §6.7`, and what follows it for the same document: `http §1, §2.3-§2.5 and §9`, `realtime §1 rules 2 and 8`
_CITATION = re.compile(rf"\b({_NAME})((?:,? (?:and )?(?:{_SECTION})(?:-{_SECTION})?(?: (?:rule|step)s? \d+(?:(?:, | and |-)\d+)*)?)+)")
_RULES = re.compile(rf"({_SECTION})(?: (?:rule|step)s? (\d+(?:(?:, | and |-)\d+)*))?")
_HEADING = re.compile(r"^#{2,4} (\d+(?:\.\d+)*)\.? ", re.MULTILINE)
_ITEM = re.compile(r"^- \*\*(\d+\.\d+)\*\* ", re.MULTILINE)
_RULE = re.compile(r"^(\d+)\. ", re.MULTILINE)
_PARTS_ABROAD = ("ontract", "primary.md", "design §", "style §")  # one is in everything that _ABROAD finds, which takes longer
_ABROAD = re.compile(r"\b[cC]ontract: |\(contract\b|\bthe contract\b|primary\.md|\bdesign §|\bstyle §")


def order(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("."))


def sections(text: str) -> list[str]:
    """The numbers of headings and of numbered rules, in the order of the text."""
    found = [(match.start(), match[1]) for pattern in (_HEADING, _ITEM) for match in pattern.finditer(text)]
    return [number for _, number in sorted(found)]


@functools.cache
def section_text(text: str, number: str) -> str:
    """From the heading of a section to the next heading."""
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == number:
            return text[heading.end() : following.start() if following else len(text)]
    return ""


def citations(text: str) -> Iterator[tuple[str, str, str]]:
    """(document, section, rules) of a text."""
    for match in _CITATION.finditer(text):
        for section, rules in _RULES.findall(match[2]):
            yield match[1], section[1:], rules


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sections_are_unique_and_in_order(name: str) -> None:
    numbers = [order(number) for number in sections(DOCUMENTS[name].read_text("utf-8"))]
    assert numbers
    assert numbers == sorted(set(numbers))


def test_cited_sections_exist() -> None:
    texts = {name: path.read_text("utf-8") for name, path in DOCUMENTS.items()}
    known = {name: set(sections(text)) for name, text in texts.items()}
    missing = []
    count = 0
    for path in [*CITING, *SPEC.glob("*.md")]:
        for name, section, rules in citations(path.read_text("utf-8")):
            count += 1
            numbers = set(_RULE.findall(section_text(texts[name], section))) | set(
                re.findall(r"; (\d+)\. ", section_text(texts[name], section))
            )
            if section not in known[name] or not numbers.issuperset(re.findall(r"\d+", rules)):
                missing.append(f"{path.relative_to(ROOT)}: {name} §{section} {rules}".strip())
    assert not missing
    assert count > 300


def test_no_comment_cites_what_a_clone_does_not_have() -> None:
    faults = []
    for path in CITING:
        text = path.read_text("utf-8")
        if any(part in text for part in _PARTS_ABROAD) and (found := _ABROAD.search(text)):
            faults.append(f"{path.relative_to(ROOT)}: {found[0]}")
    assert not faults


def test_the_specification_does_not_leave_the_repository() -> None:
    for path in SPEC.glob("*.md"):
        text = path.read_text("utf-8")
        assert not re.search(r"\[(?:S|F|D)\]|\bcontract\b|primary text", text), path
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (SPEC / target).exists(), f"{path}: {target}"


def test_every_operation_is_specified() -> None:
    text = (SPEC / "operations.md").read_text("utf-8")
    assert not [row.name for row in all_operations() if f"`{row.name}`" not in text]


def test_every_code_of_an_error_is_specified() -> None:
    text = (SPEC / "http.md").read_text("utf-8")
    codes = {found for found in (getattr(value, "code", "") for value in vars(errors).values() if isinstance(value, type)) if found}
    assert len(codes) > 10
    assert not [code for code in codes if f"`{code}`" not in text]


def test_json_in_the_specification_is_json() -> None:
    for path in SPEC.glob("*.md"):
        for block in re.findall(r"^```json\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            json.loads(block)


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")]), ids=lambda path: str(path.relative_to(ROOT))
)
def test_paths_that_pages_name_exist(page: Path) -> None:
    for named in re.findall(r"`((?:svc|tests|fuzz|bench|docs)/[\w/.-]*)`", page.read_text("utf-8")):
        assert (ROOT / named).exists(), named


def headings(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_links_lead_to_headings() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")):
        for target, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)", page.read_text("utf-8")):
            assert anchor in headings(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


def test_classes_and_methods_that_the_tour_names_exist() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "svc").rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", code, re.MULTILINE))
    methods = set(re.findall(r"^    (?:async )?def (\w+)\(", code, re.MULTILINE))
    tour = DOCUMENTS["architecture"].read_text("utf-8")
    for name, method in re.findall(r"`([A-Z][a-z]\w+)(?:\.(\w+))?`", tour):
        assert name in classes, name
        assert not method or method in methods, f"{name}.{method}"
