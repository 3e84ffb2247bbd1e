"""The moment between a fork and what the child then gives up; the rest is tried by tests/integration/test_forked_children.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

# A hook that is registered before those of svc runs before them in the child.
EARLY_SIGNAL = """
import json, os, signal, sys
from pathlib import Path
from types import SimpleNamespace

os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))

from svc.loop import new_loop
from svc.server.forked_child import ForkedChild

root = Path(sys.argv[1])
logging = SimpleNamespace(path=root / "log/svc.log", rotation=SimpleNamespace(path=root))
config = SimpleNamespace(root=root, components_root=root / "components", logging=logging)
store = SimpleNamespace(path=root / "database", blob_paths=[], give_up=lambda: None)
logs = SimpleNamespace(give_up_pending=lambda: None)
loop, turns = new_loop()
stopped = []
loop.add_signal_handler(signal.SIGTERM, stopped.append, 1)
instance = ForkedChild(config, store, logs, lambda: (), turns)
instance.note_signals([signal.SIGTERM])
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])

child = os.fork()
if child == 0:
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
turns.end_turn = lambda: False
for _ in range(3):
    loop.call_soon(loop.stop)
    loop.run_forever()
print(json.dumps([status, stopped, signal.pthread_sigmask(signal.SIG_BLOCK, []) == before]))
"""


NO_DESCRIPTOR = """
import resource
""" + EARLY_SIGNAL.replace("os.kill(os.getpid(), signal.SIGTERM)", "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))")


def test_a_child_that_cannot_give_up_ends(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", NO_DESCRIPTOR, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [1, [], True]
    assert "Too many open files" in found.stderr


def test_a_signal_that_comes_before_the_child_has_given_up_is_for_the_child(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", EARLY_SIGNAL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [-15, [], True]
