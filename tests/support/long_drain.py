"""A hook of servers (SVC_TEST_HOOK): a stop waits longer for requests in flight, so that the test has its say first on a busy machine too."""

from svc.server import shutdown
from tests.support.waiting import LIMIT

assert __name__ == "<run_path>", "a test that imports it would change its own process"

shutdown.DRAIN_SECONDS = LIMIT
