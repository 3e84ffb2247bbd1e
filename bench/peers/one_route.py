"""A FastAPI application with one route, which reads a record from SQLite: for `bench.applications`. uvicorn runs it as `one_route:api`."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from fastapi import FastAPI, HTTPException

api = FastAPI()
database = sqlite3.connect(os.environ["BENCH_DATABASE"])
database.row_factory = sqlite3.Row


@api.get("/item/{id}")
async def read_item(id: str) -> dict[str, Any]:
    row = database.execute("SELECT * FROM item WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise HTTPException(404)
    return {**row, "active": bool(row["active"])}
