"""What forms are signed with for callers who show nothing that is secret: a certificate, or being on this machine (spec: http §7.8).

The parent imports this before it forks the instances, so all of them have the same.
"""

from __future__ import annotations

import os

SECRET = os.urandom(32).hex()
