"""An application that sends mails, and the settings of servers that do."""

from __future__ import annotations

from pathlib import Path

SCHEMA = "type Order @table @export { id: ID @primaryKey  to: String  name: String }\n"
RESOURCES = '''
from svc import Resource, mail, tables, transaction, run_in_thread


class Orders(Resource):
    """Each POST stores a record, and sends a mail about it."""

    async def post(self, data):
        await tables.Order.put(data["id"], {"to": data["to"], "name": data.get("name", "")})
        sent = await mail.send(data["to"], data.get("template", "order"), name=data.get("name", ""), id=data["id"])
        if data.get("fails"):
            raise ValueError("after the mail")
        return {"message_id": sent}


class Many(Resource):
    """A mail for each number, outside of the transaction of the request."""

    async def post(self, data):
        async with transaction() as txn:
            for number in data["numbers"]:
                await mail.send(f"{number}@example.org", "order", name="", id=str(number))
            if data.get("aborts"):
                txn.abort()
        return len(data["numbers"])


class Thread(Resource):
    async def post(self, data):
        def work():
            mail.send("ann@example.org", "order", name="", id="1").send(None)

        await run_in_thread(work)
'''
MAILS = {
    "order.txt": "Subject: Order {{ id }} of {{ name }}\n\nHello {{ name }},\nyour order: https://example.org/orders?id={{ id }}&code=s3cret-code\n",
    "order.html": '<h1 onclick="alert(1)">Hello {{ name }}</h1><script>alert(1)</script><a href="https://example.org/{{ id }}">order</a>\n',
    "plain.txt": "Subject: Plain\n\n{{ name }}\n",
    "missing.txt": "Subject: x\n\n{{ nothing }}\n",
}


def write_application(directory: Path) -> Path:
    (directory / "mails").mkdir(parents=True)
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(RESOURCES)
    (directory / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\nresources: {files: resources.py}\n")
    for name, text in MAILS.items():
        (directory / "mails" / name).write_text(text)
    return directory


def settings(port: int, **more: str) -> dict[str, str]:
    """As variables of the environment."""
    return {"MAIL_HOST": "127.0.0.1", "MAIL_PORT": str(port), "MAIL_TLS": "none", "MAIL_FROM": "The shop <shop@example.org>", **more}
