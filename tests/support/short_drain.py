"""A hook of servers (SVC_TEST_HOOK): a stop hardly waits for requests in flight, so that it ends them."""

from svc.server import shutdown

assert __name__ == "<run_path>", "a test that imports it would change its own process"

shutdown.DRAIN_SECONDS = 0.3
