"""A hook of servers (SVC_TEST_HOOK): an instance that does nothing counts as hung after a few seconds."""

from svc.parent import parent

assert __name__ == "<run_path>", "a test that imports it would change its own process"

parent.HANG_SECONDS = 4.0
parent.ABORT_SECONDS = 0.0
