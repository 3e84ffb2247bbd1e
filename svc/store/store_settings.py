"""What a store does differently if it is asked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.store.disk.faults import MAP_BYTES
from svc.store.disk.reclamation import ReclamationSettings
from svc.store.snapshots import SnapshotLimits
from svc.store.values.records import COMPRESS_ABOVE, NEVER
from svc.store.writing.writer_queue import QueueLimits

CACHE_BYTES = 64 << 20
LOG_RETENTION = 3 * 86400.0  # seconds
QUEUE_LIMITS = QueueLimits()
SNAPSHOT_LIMITS = SnapshotLimits()
RECLAMATION = ReclamationSettings()


@dataclass(frozen=True)
class StoreSettings:
    """`write_async`: do not wait for the disk at commit. `cache_bytes`: budget of the index caches. `map_bytes`: largest size of a database; address space,
    not disk. `audit`: whether the log keeps images where the table does not say. `log_retention`: seconds that log entries are kept. `queue_limits`: of
    writers that wait for long writes. `snapshot_limits`: of results that are read slowly. `reclamation`: of what may go when the volume becomes full.
    `blob_paths`: directories of blobs, default: one beside the databases. `compression`: of large records, as the setting says it (spec: configuration
    §2.8); whatever it is, compressed records can be read."""

    write_async: bool = False
    cache_bytes: int = CACHE_BYTES
    map_bytes: int = MAP_BYTES
    audit: bool = True
    log_retention: float = LOG_RETENTION
    queue_limits: QueueLimits = QUEUE_LIMITS
    snapshot_limits: SnapshotLimits = SNAPSHOT_LIMITS
    reclamation: ReclamationSettings = RECLAMATION
    blob_paths: tuple[Path, ...] = ()
    compression: bool | Mapping[str, Any] = True

    @property
    def compress_above(self) -> int:
        """Bytes of a record's payload, above which it is compressed."""
        if self.compression is False:
            return NEVER
        return self.compression.get("threshold", COMPRESS_ABOVE) if isinstance(self.compression, Mapping) else COMPRESS_ABOVE


DEFAULT_SETTINGS = StoreSettings()
