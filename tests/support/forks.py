"""Where the children of crash tests are forked: a process that has imported svc already. A start of Python and its imports take most of a second of
processor time.
"""

from __future__ import annotations

import atexit
import multiprocessing
import shutil
import tempfile

import svc.cli
import svc.server  # noqa: F401  # for the children

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([__name__])

# multiprocessing removes a directory of its own at exit, when that of this run, which it is in, may be gone.
_directory = tempfile.mkdtemp(prefix="forks-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
multiprocessing.current_process()._config["tempdir"] = _directory  # type: ignore[attr-defined]
