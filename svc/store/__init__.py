"""The store: databases, tables, indexes and the transaction log, on LMDB. The only importer of lmdb and sortedcontainers."""

from svc.store.blobs import Blob, create_blob
from svc.store.database import Database
from svc.store.entity_tags import Precondition
from svc.store.env import WriterBusy
from svc.store.indexes.index import Index
from svc.store.log.entries import LogEntry
from svc.store.store import Store
from svc.store.store_settings import StoreSettings
from svc.store.table import Table
from svc.store.values.records import MISSING
from svc.store.writing.transaction import Transaction

__all__ = [
    "MISSING",
    "Blob",
    "Database",
    "Index",
    "LogEntry",
    "Precondition",
    "Store",
    "StoreSettings",
    "Table",
    "Transaction",
    "WriterBusy",
    "create_blob",
]
