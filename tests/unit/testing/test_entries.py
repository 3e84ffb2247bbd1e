"""What the entries of config.yaml do is there in a test."""

from __future__ import annotations

import os
from pathlib import Path

import svc.testing
from tests.unit.testing.conftest import write_application

FILES = {
    "config.yaml": """
        loadEnv: {files: .env}
        rest: true
        graphqlSchema: {files: '*.graphql'}
        roles: {files: roles.yaml}
        dataLoader: {files: data/*.yaml}
        resources: {files: resources.py}
        static: {files: 'web/*', urlPath: /web}
        scheduler:
          jobs:
            - {name: hourly, cron: '0 * * * *', handler: 'resources.py#hourly'}
    """,
    ".env": "SHOP_NAME=walnuts\n",
    "schema.graphql": "type Product @table @export { id: ID @primaryKey name: String } type Run @table @export { id: ID @primaryKey at: Date }",
    "roles.yaml": "visitor:\n  data:\n    Product: {read: true}\n",
    "data/products.yaml": "table: Product\nrecords:\n  - {id: '1', name: walnut}\n",
    "web/index.html": "<h1>Shop</h1>",
    "resources.py": """
        import os
        from svc import Resource, tables

        async def hourly(run):
            await tables.Run.create({"at": run.scheduled_at})

        class Name(Resource):
            def get(self, target=None):
                return os.environ["SHOP_NAME"]
    """,
}
BEGIN = 1_893_456_000  # 2030-01-01, 00:00


def test_variables_data_roles_files_and_jobs_are_there(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop", FILES), now=BEGIN) as shop:
        assert shop.get("/Name").json == "walnuts"
        assert shop.get("/Product/", user={"role": "visitor"}).json == [{"id": "1", "name": "walnut"}]
        assert shop.get("/Run/", user={"role": "visitor"}).status == 403
        page = shop.get("/web/index.html")
        assert (page.status, page.text, page.content_type) == (200, "<h1>Shop</h1>", "text/html")
        shop.clock.advance(3599)
        assert shop.tables.Run.search({}) == []
        shop.clock.advance(1)
        assert [run.at.timestamp() for run in shop.tables.Run.search({})] == [BEGIN + 3600]
        shop.clock.advance(86_400)
        assert shop.get("/Run/?count()").json == {"count": 25}
    assert "SHOP_NAME" not in os.environ
