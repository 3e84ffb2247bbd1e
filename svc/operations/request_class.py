"""How soon an operation is refused under overload (spec: http §14.2): from the first bytes of its body, for nothing else is known of it."""

from __future__ import annotations

import re

from svc.connection.load_shedding import RequestClass
from svc.rest.request_class import HEALTH

BEGINNING = 1024  # bytes of the body: clients put the name first
_NAME = re.compile(rb'"operation"\s*:\s*"([a-z0-9_]+)"')

CLASSES = {
    RequestClass.READ: ("search_by_id", "search_by_hash", "search_by_value", "search_by_conditions"),
    RequestClass.WRITE: ("insert", "update", "upsert", "delete"),
    RequestClass.BULK: (
        "sql",
        "csv_data_load",
        "csv_file_load",
        "csv_url_load",
        "add_upload",
        "read_upload",
        "load_upload",
        "import_from_s3",
        "export_local",
        "export_to_s3",
        "delete_records_before",
        "delete_files_before",
    ),
}  # all others are administration
_CLASS = {name.encode(): kind for kind, names in CLASSES.items() for name in names}


def class_of_operation(method: str, target: str, content: bytes) -> RequestClass:
    """`content`: of the body what is here.

    >>> class_of_operation("POST", "/", b'{"operation": "sql", "sql": "SELECT 1"}').name, class_of_operation("POST", "/", b"").name
    ('BULK', 'OPERATION')
    """
    if target.partition("?")[0] in HEALTH:
        return RequestClass.HEALTH
    found = _NAME.search(content, 0, BEGINNING)
    return RequestClass.OPERATION if found is None else _CLASS.get(found[1], RequestClass.OPERATION)
