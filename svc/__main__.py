"""`python -m svc` and the `svc` command: arguments, environment and file become a Config, that a Server, and its result the exit status."""

import os
import sys


def _forget_current_directory() -> None:
    """Remove the current directory from the module path, where `python -m` puts it: a file in it (`yaml.py`) would be imported instead of the
    module of that name. It is kept if svc itself is in it, as in its source tree."""
    if sys.flags.safe_path or not sys.path:
        return
    first = os.path.abspath(sys.path[0])
    if first == os.path.abspath(os.curdir) and first != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]


def _open_standard_streams() -> None:
    """Make a standard stream that is closed one of `/dev/null`: else the next file that is opened, a lock or a database, would have its number, and
    would get what libraries print."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


CLOSED_PIPE = 141  # what a shell reports of a program that SIGPIPE has ended


def main() -> int:
    """The exit status of the command line that this process was given; CLOSED_PIPE, silently, if nothing reads its output any more."""
    _open_standard_streams()
    _forget_current_directory()
    from svc.cli import main as run

    try:
        status = run()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):  # what is still to be written there would raise once more at the end
            os.dup2(null, descriptor)
        return CLOSED_PIPE


if __name__ == "__main__":
    sys.exit(main())
