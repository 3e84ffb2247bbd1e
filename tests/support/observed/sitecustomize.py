"""Python imports this as it starts, where this folder is on its path: then SIGURG has the process write how many asyncio tasks it has.

The number goes to the file that SVC_TEST_TASKS names. The signal is one that is ignored where this module was not imported. With SVC_TEST_PREPARE_AT_ONCE
requests are prepared when they are answered for the first time.
"""

import asyncio
import itertools
import os
import signal

numbers = itertools.count()


def write_task_count(number: int, frame: object) -> None:
    try:
        count = sum(not task.done() for task in asyncio.all_tasks())
    except RuntimeError:  # no loop is running yet, or none any more
        return
    path = os.environ["SVC_TEST_TASKS"]
    new = f"{path}.{next(numbers)}"  # another signal may interrupt this
    with open(new, "w") as file:
        file.write(str(count))
    os.replace(new, path)


if "SVC_TEST_TASKS" in os.environ:
    signal.signal(signal.SIGURG, write_task_count)

if "SVC_TEST_PREPARE_AT_ONCE" in os.environ:
    from svc.prepared.kept import Candidate

    Candidate.prepares_at_once = True
