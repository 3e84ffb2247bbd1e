"""GraphQL documents: parsed once and kept (spec: graphql §3, §6).

graphql-core parses; what is examined of a document is the operation that runs, so that others in it may be of kinds that are not available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphql import GraphQLSyntaxError, parse
from graphql.language import ExecutableDefinitionNode, FragmentDefinitionNode, Node, OperationDefinitionNode

from svc.graphql.faults import DocumentError, fault_at

MAX_LENGTH = 1 << 20  # bytes of UTF-8
MAX_TOKENS = 50_000
LONG = 2048  # characters: what is longer takes milliseconds to parse

_KEPT_LENGTH = 1 << 16  # characters of a document that is kept
_KEPT_DOCUMENTS = 512
_KEPT_CHARACTERS = 1 << 20  # of all that are kept: their nodes take many times that


class Document:
    """`operations` by name, that of one without a name is "". `text`: as it was sent."""

    __slots__ = ("fragments", "operations", "selected", "text")

    def __init__(
        self, text: str, operations: Mapping[str, OperationDefinitionNode], fragments: Mapping[str, FragmentDefinitionNode]
    ) -> None:
        self.text = text
        self.operations = operations
        self.fragments = fragments
        self.selected: dict[str, object] = {}
        """What was made of the operations, by name: `operation.Operation`."""

    def operation(self, name: str | None) -> OperationDefinitionNode:
        """The operation that `operationName` selects; None and "": the only one. Raises DocumentError."""
        if name:
            found = self.operations.get(name)
            if found is None:
                raise DocumentError(f"Operation `{name[:100]}` not found.")
            return found
        if len(self.operations) > 1:
            raise DocumentError("Operation name is required when there are multiple operations in the document.")
        for only in self.operations.values():
            return only
        raise DocumentError("The document has no operation.")


def parse_document(text: str) -> Document:
    """Raises DocumentError, with the location of the fault."""
    if len(text) > MAX_LENGTH or (not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > MAX_LENGTH):
        raise DocumentError(f"The query is longer than {MAX_LENGTH} bytes.")
    try:
        tree = parse(text, max_tokens=MAX_TOKENS)
    except GraphQLSyntaxError as error:
        locations = error.locations or ()
        raise DocumentError(error.message, location=(locations[0].line, locations[0].column) if locations else None) from None
    except RecursionError:
        raise DocumentError("Syntax Error: Document is nested too deeply.") from None
    return _document(text, tree.definitions)


def _document(text: str, definitions: Sequence[Node]) -> Document:
    operations: dict[str, OperationDefinitionNode] = {}
    fragments: dict[str, FragmentDefinitionNode] = {}
    for definition in definitions:
        if not isinstance(definition, ExecutableDefinitionNode):
            raise fault_at(definition, f"Unexpected non-executable definition type {_kind(definition)}.")
        if isinstance(definition, FragmentDefinitionNode):
            name = definition.name.value
            if name in fragments:
                raise fault_at(definition, f"Duplicate fragment definition: {name}")
            fragments[name] = definition
        elif isinstance(definition, OperationDefinitionNode):
            name = "" if definition.name is None else definition.name.value
            if name in operations and name:
                raise fault_at(definition, f"Duplicate operation definition: {name}")
            if operations and (not name or "" in operations):
                raise fault_at(definition, "An operation without a name must be the only operation of the document.")
            operations[name] = definition
    return Document(text, operations, fragments)


def _kind(definition: Node) -> str:
    """The name of a kind of node as the JavaScript reference implementation has it: `ObjectTypeDefinition`."""
    return type(definition).__name__.removesuffix("Node")


class Documents:
    """A bounded cache of documents by their text; the least recently used goes first."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._characters = 0

    def __len__(self) -> int:
        return len(self._documents)

    def find(self, text: str) -> Document | None:
        found = self._documents.pop(text, None)
        if found is not None:
            self._documents[text] = found
        return found

    def keep(self, document: Document) -> None:
        """Documents that are long, or that a client makes anew for each request with its values in them, take the place of others for some time only."""
        length = len(document.text)
        if length > _KEPT_LENGTH or document.text in self._documents:
            return
        self._documents[document.text] = document
        self._characters += length
        while len(self._documents) > _KEPT_DOCUMENTS or self._characters > _KEPT_CHARACTERS:
            oldest = next(iter(self._documents))
            del self._documents[oldest]
            self._characters -= len(oldest)
