"""Schema files: any text gives definitions and faults, nothing else.

Invariant, for any texts as the schema files of one application:

1. `load_schema_files` raises nothing. Each fault has a message that can be sent and a place that is in the text.
2. Fields without a type are an addition: where graphql-core accepts a text, not one is found in it.
3. Each field and type is declared at the place that we name.
4. What may be applied can be: a definition comes back from its stored form, equals itself, has a key, and makes a validator.
5. The order in which the files are given makes no difference.
6. What is applied has the rules about rows that its types have, none of them is empty or speaks of nothing, and there is one table of accounts, with text keys.
   Where a type has a rule that is not, nothing is applied.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from graphql import GraphQLError, parse

from fuzz.runner import mutate, run
from svc.apps.schema_files import SchemaResult, load_schema_files
from svc.apps.schema_syntax import TypeDeclaration, parse_schema, untyped_fields
from svc.errors import ClientError, SchemaError
from svc.store.schema import ACTIONS, SCALAR_TYPES, DefinitionChange, compare, definition_from_bytes, definition_to_bytes, may_be_key
from svc.store.values.validation import Validator

CORPUS = Path(__file__).parent / "corpus" / "schema"
FILE_MARK = "# file\n"

TOKENS = b"""type extend enum input interface implements union scalar schema directive on { } ( ) [ ] ! : = | & @ $ ... , " \""" # \\ null true false
0 -1 1.5 1e9 300 "300" a b id T U @table @export @sealed @hidden @splitSegments @primaryKey @indexed @relationship @computed @createdTime
@updatedTime @expiresAt @embed @enumerable @allow @account
(read:"a==1") (roles:[a],delete:"true") (from:a) (to:a) (from:a,to:b) (from:"a+b") (type:HNSW) (database:a) (table:"x") (expiration:1)
(name:"") (source:a) \xc3\xa9 \xef\xbb\xbf""".split()
TOKENS += (b"\n", b"\r", b"\r\n", FILE_MARK.encode(), *[name.encode() for name in SCALAR_TYPES])
BEGINNINGS = [b"type T @table { id: ID ", b"type U { a: Int ", b"type ", b""]


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.7:
        return mutate(source, source.choice(corpus), TOKENS)
    return (
        source.choice(BEGINNINGS) + b" ".join([source.choice(TOKENS) for _ in range(source.randint(1, 25))]) + source.choice((b"", b" }"))
    )


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    files = [(f"{number}.graphql", part) for number, part in enumerate(text.split(FILE_MARK))]
    for _, part in files:
        check_syntax(part)

    result = load_schema_files(files, url_directory="app")
    assert load_schema_files(reversed(files), url_directory="app") == result
    for fault in result.faults:
        lines = lines_of(dict(files)[fault.path])
        assert 1 <= fault.position.line <= len(lines), fault
        assert 1 <= fault.position.column <= len(lines[fault.position.line - 1]) + 1, fault
        str(fault).encode()
    check_rules(files, result)
    addresses = [(definition.database, definition.name) for definition in result.definitions]
    assert len(set(addresses)) == len(addresses)
    for definition in result.definitions:
        assert definition_from_bytes(definition_to_bytes(definition)) == definition
        assert compare(definition, definition) == DefinitionChange()
        key = definition.attribute(definition.primary_key)
        assert key is not None and key.primary_key and may_be_key(key)
        assert len({attribute.name for attribute in definition.attributes}) == len(definition.attributes)
        structures = {structure.name for structure in definition.structures}
        for attribute in definition.attributes:
            assert attribute.relationship is not None or attribute.type in SCALAR_TYPES or attribute.type in structures, attribute
        for rule in definition.allow:
            conditions = [getattr(rule, action) for action in ACTIONS]
            assert any(conditions) and all(text is None or text.strip() for text in conditions) and rule.roles != (), rule
        assert not definition.account or key.type in ("ID", "String"), definition
        validator = Validator(definition)
        try:
            record = validator.record({attribute.name: {"a": [1.5]} for attribute in definition.attributes})
        except ClientError as error:
            error.message.encode()
        else:
            assert validator.record(record) is record


def check_rules(files: Sequence[tuple[str, str]], result: SchemaResult) -> None:
    declared = 0
    for _, text in files:
        try:
            types = [each for each in parse_schema(text) if isinstance(each, TypeDeclaration)]
        except SchemaError:
            assert "@allow" not in text or not result.definitions
            continue
        declared += sum(directive.name == "allow" for each in types for directive in each.directives)
    assert not result.ends_load or (result.errors and not result.definitions)
    applied = [definition for definition in result.definitions if definition.allow]
    assert not declared or result.ends_load or applied
    assert sum(definition.account for definition in result.definitions) <= 1


def check_syntax(text: str) -> None:
    try:
        parse(text)
    except (GraphQLError, RecursionError):
        pass
    else:
        assert untyped_fields(text) == []
    try:
        declarations = parse_schema(text)
    except SchemaError as error:
        assert error.line >= 1 and error.column >= 1
        return
    lines = lines_of(text)
    for declaration in declarations:
        if isinstance(declaration, TypeDeclaration):
            for item in (declaration, *declaration.fields):
                assert lines[item.position.line - 1].startswith(item.name, item.position.column - 1), item


def lines_of(text: str) -> list[str]:
    return re.split(r"\r\n|[\n\r]", text)


if __name__ == "__main__":
    sys.exit(run("schema", generate, check, CORPUS))
