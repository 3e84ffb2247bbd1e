"""A hook of servers (SVC_TEST_HOOK): a file named by SVC_TEST_QUEUED has a byte for each turn that has carried out queued writes."""

import os

from svc.store.writing.queued_writes import QueuedWrites

assert __name__ == "<run_path>", "a test that imports it would change its own process"

_apply = QueuedWrites._apply


def _seen(self, waiting):
    left = _apply(self, waiting)
    if len(left) < len(waiting):
        with open(os.environ["SVC_TEST_QUEUED"], "ab") as file:
            file.write(b".")
    return left


QueuedWrites._apply = _seen
