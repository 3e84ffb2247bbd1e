"""`python -m svc` and the `svc` command: arguments, environment and file become a Config, that a Server, and its result the exit status."""

import sys

from svc.cli import main

if __name__ == "__main__":
    sys.exit(main())
