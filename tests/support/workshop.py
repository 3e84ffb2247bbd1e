"""A server with tables that are worth a look, for tests of pages in Chromium: every kind of attribute, related tables, a rule on rows, hostile values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.integration.conftest import PASSWORD, Process
from tests.support.chromium import Page

HOSTILE = "\"'><img src=x onerror=alert(1)></td></script>\u202e"
SCHEMA = '''
"""What is on the shelves."""
type Tool @table @export {
  id: ID @primaryKey
  "What people call it"
  name: String! @indexed
  kind: Kind @indexed
  price: Float @indexed
  stock: Int
  serial: BigInt
  isForHire: Boolean
  bought: Date @indexed
  tags: [String] @indexed
  makerId: ID @indexed
  maker: Maker @relationship(from: "makerId")
  size: Any
  note: String
  picture: Blob
  changed: Date @updatedTime
}
enum Kind { HAND POWER GARDEN }
"""Who makes tools."""
type Maker @table @export {
  id: ID @primaryKey
  name: String! @indexed
  tools: [Tool] @relationship(to: "makerId")
}
"""Who has borrowed what: everybody sees their own."""
type Loan @table @export @allow(read: "borrower==$user.username", create: "borrower==$user.username") {
  id: ID @primaryKey
  borrower: String @indexed
  toolId: ID @indexed
  tool: Tool @relationship(from: "toolId")
}
'''
MAKERS = ("Ash & Sons", "Birch", "Cedar", "Dogwood", "Elm")
KINDS = ("HAND", "POWER", "GARDEN")
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


def tool(number: int) -> dict[str, Any]:
    return {
        "id": f"t{number:04}",
        "name": HOSTILE if number == 7 else f"Tool {number}",
        "kind": KINDS[number % 3],
        "price": number + 0.5,
        "stock": number % 11,
        "serial": 2**70 + number,
        "isForHire": number % 2 == 0,
        "bought": f"20{10 + number % 10}-03-{1 + number % 28:02}T08:30:00.000Z",
        "tags": [f"shelf {number % 9}", "old" if number % 5 else "new"],
        "makerId": f"m{number % len(MAKERS)}",
        "size": {"width": number, "length": [number, number + 1]},
        "note": None if number % 4 else f"Line one of {number}\nline two",
    }


def make_application(directory: Path) -> Path:
    directory.mkdir()
    (directory / "config.yaml").write_text("rest: true\nlogin: true\ngraphqlSchema: {files: '*.graphql'}\n")
    (directory / "schema.graphql").write_text(SCHEMA)
    return directory


def fill(client: httpx.Client, tools: int = 1000) -> None:
    """`client`: of a super user on the application port."""
    for number, name in enumerate(MAKERS):
        answer = client.put(f"/Maker/m{number}", json={"name": name})
        assert answer.status_code == 204, answer.text
    assert client.put("/Tool/", json=[tool(number) for number in range(tools)]).status_code == 204
    assert (
        client.put(
            "/Loan/", json=[{"id": f"l{n}", "borrower": "ann" if n % 2 else "bob", "toolId": f"t{n:04}"} for n in range(20)]
        ).status_code
        == 204
    )
    assert client.put("/Tool/t0001/picture", content=PICTURE, headers={"Content-Type": "image/png"}).status_code == 204


def log_in(page: Page, server: Process, user: str = "admin", password: str = PASSWORD, host: str = "127.0.0.1") -> None:
    """At the console: the session counts on both ports."""
    page.open(f"http://{host}:{server.operations_port}/console/login")
    page.evaluate("document.querySelector('[name=_username]').focus()")
    page.type(user)
    page.evaluate("document.querySelector('[name=_password]').focus()")
    page.type(password)
    page.press("Enter")
    page.until("document.querySelector('nav.places') && document.readyState == 'complete'")


def check_page(page: Page, server: Process) -> None:
    """No console message, no violation of the policy, no request to another server. What a page of ours has asked for so far is forgotten."""
    assert page.problems == [], page.problems
    own = tuple(f"http://{host}:{port}/" for host in ("127.0.0.1", "localhost") for port in (server.port, server.operations_port))
    foreign = [address for address in page.requested if not address.startswith((*own, "about:", "data:", "blob:"))]
    assert foreign == []
    page.requested.clear()
