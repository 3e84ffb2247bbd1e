"""Applications from schema text, and their documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from svc.auth.roles import Role
from svc.auth.users import User
from svc.content.registry import ContentTypes
from svc.rest.openapi import openapi_document
from tests.support.node import Node

Document = dict[str, Any]
ADMIN = User("admin", role=Role("super_user", "super_user", {"super_user": True}))


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes a node with these `*.graphql` texts as its application."""
    nodes: list[Node] = []

    def make(*schemas: str, config: str = "") -> Node:
        app = tmp_path / f"app{len(nodes)}"
        app.mkdir()
        for number, text in enumerate(schemas):
            (app / f"{number}.graphql").write_text(text)
        if config:
            (app / "config.yaml").write_text(config)
        node = Node(tmp_path / f"data{len(nodes)}", app)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def document_of(node_of: Callable[..., Node]) -> Callable[..., Document]:
    """The document of such an application, valid OpenAPI 3.0."""

    def make(*schemas: str, config: str = "") -> Document:
        document = openapi_document(node_of(*schemas, config=config).resources, "http://localhost", "1", ContentTypes.built_in(), ADMIN)
        OpenAPIV30SpecValidator(document).validate()
        return document

    return make
