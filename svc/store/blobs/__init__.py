"""Blobs: content too large for a record, in files of its own (spec: schema-and-store §14)."""

from svc.store.blobs.blob import INLINE_BELOW, Blob, create_blob
from svc.store.blobs.descriptions import BlobDescription, blobs_in, descriptions_in, maybe_description
from svc.store.blobs.files import BlobFile, BlobFiles
from svc.store.blobs.helper import Helper, ThreadHelper
from svc.store.blobs.ledger import BLOBS_STORE, Ledger
from svc.store.blobs.saving import Upload, save, save_now
from svc.store.blobs.sources import Chunks, UnsavedContent, is_stream
from svc.store.blobs.sweep import Sweep

__all__ = [
    "BLOBS_STORE",
    "INLINE_BELOW",
    "Blob",
    "BlobDescription",
    "BlobFile",
    "BlobFiles",
    "Chunks",
    "Helper",
    "Ledger",
    "Sweep",
    "ThreadHelper",
    "UnsavedContent",
    "Upload",
    "blobs_in",
    "create_blob",
    "descriptions_in",
    "is_stream",
    "maybe_description",
    "save",
    "save_now",
]
