"""svc.api.caching: reading a table through its source, over REST and from code, with a source in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.application import Application, application

SCHEMA = """
type Rate @table(expiration: 60, eviction: 600, scanInterval: 1) @export { id: ID @primaryKey value: Int name: String @indexed note: String }
type Log @table @export { id: ID @primaryKey what: String }
"""

# A source whose answers the test decides: `answers[id]` is returned, raised if it is an exception, called if it is callable.
CODE = """
import asyncio
from svc import Resource, tables, get_context, Response

calls = []
answers = {}
contexts = []
gate = None

def answer(id, context):
    calls.append(id)
    contexts.append(context)
    found = answers.get(id)
    if isinstance(found, BaseException):
        raise found
    return found(context) if callable(found) else found

class Source:
    def get(self, id, context):
        return answer(id, context)

class Waiting:
    async def get(self, id, context):
        if gate is not None:
            await gate.wait()
        else:
            await asyncio.sleep(0)
        return answer(id, context)
"""
PLAIN = CODE + "tables.Rate.source_from(Source())\n"
WAITING = CODE + "tables.Rate.source_from(Waiting())\n"
both = pytest.mark.parametrize("code", [PLAIN, WAITING], ids=["plain", "waiting"])


def get(app: Application, target: str, **fields: str) -> tuple[int, dict[str, str], Any]:
    return app.answer("GET", target, **fields)


@both
def test_a_record_is_fetched_once_and_then_served(tmp_path: Path, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        app.module.answers["eur"] = {"value": 5, "name": "Euro"}
        status, fields, body = get(app, "/Rate/eur")
        assert (status, body) == (200, {"value": 5, "name": "Euro", "id": "eur"})
        assert "age" not in fields
        tag = fields["etag"]
        status, fields, body = get(app, "/Rate/eur")
        assert (status, body) == (200, {"value": 5, "name": "Euro", "id": "eur"})
        assert fields["age"] == "0" and fields["etag"] == tag
        assert app.module.calls == ["eur"]
        assert get(app, "/Rate/eur", if_none_match=tag)[0] == 304
        assert get(app, "/Rate/none")[0] == 404 and get(app, "/Rate/none")[0] == 404
        assert app.module.calls == ["eur", "none", "none"]
        assert app.errors == []
        app.node.store.check()
