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

TOKEN_BYTES = 650  # of the token and its nodes
_KEPT_DOCUMENTS = 512
_KEPT_BYTES = 64 << 20  # of all documents and what is made of them
_KEPT_MOST = 16 << 20  # of one


class Document:
    """`operations` by name, that of one without a name is "". `text`: as it was sent. `weight`: about how many bytes it takes, with what was made of it."""

    __slots__ = ("fragments", "operations", "selected", "text", "weight")

    def __init__(
        self,
        text: str,
        operations: Mapping[str, OperationDefinitionNode],
        fragments: Mapping[str, FragmentDefinitionNode],
        weight: int,
    ) -> None:
        self.text = text
        self.operations = operations
        self.fragments = fragments
        self.weight = weight
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
        tree = parse(text, max_tokens=MAX_TOKENS, allow_empty_selection_sets=False)
    except GraphQLSyntaxError as error:
        locations = error.locations or ()
        raise DocumentError(error.message, location=(locations[0].line, locations[0].column) if locations else None) from None
    except RecursionError:
        raise DocumentError("Syntax Error: Document is nested too deeply.") from None
    return _document(text, tree.definitions, 4 * len(text) + TOKEN_BYTES * (tree.token_count or 0))


def _document(text: str, definitions: Sequence[Node], weight: int) -> Document:
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
    return Document(text, operations, fragments, weight)


def _kind(definition: Node) -> str:
    """The name of a kind of node as the JavaScript reference implementation has it: `ObjectTypeDefinition`."""
    return type(definition).__name__.removesuffix("Node")


class Documents:
    """A cache of documents by their text, bounded in number and in bytes; the least recently used goes first."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[Document, int]] = {}  # with the weight that is counted
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._documents)

    def find(self, text: str) -> Document | None:
        found = self._documents.pop(text, None)
        if found is None:
            return None
        self._documents[text] = found
        return found[0]

    def keep(self, document: Document) -> None:
        """Called again when more was made of it. Documents that a client makes new for each request, with its values in them, take the place of others for
        some time only."""
        known = self._documents.pop(document.text, None)
        if known is not None:
            self._bytes -= known[1]
        if document.weight > _KEPT_MOST:
            return
        self._documents[document.text] = document, document.weight
        self._bytes += document.weight
        while len(self._documents) > _KEPT_DOCUMENTS or self._bytes > _KEPT_BYTES:
            _, weight = self._documents.pop(next(iter(self._documents)))
            self._bytes -= weight
