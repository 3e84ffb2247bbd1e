"""Registration and licences: there are none here (spec: operations §13)."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path
from typing import Any

from svc import __version__
from svc.errors import Refusal
from svc.operations.call import Call
from svc.operations.operation import ANYONE, SUPER_USER, Operation

FINGERPRINT_FILE = "node-id"  # below keys/
_BYTES = 16


def registration_info(call: Call) -> Any:
    return {"registered": False, "version": __version__, "ram_allocation": None, "license_expiration_date": None}


def fingerprint(root: Path) -> str:
    """The id of this installation: made up once, then kept in a file. Blocks."""
    path = root / "keys" / FINGERPRINT_FILE
    for _ in range(2):
        try:
            found = path.read_text("ascii").strip()
            if len(found) == 2 * _BYTES:
                return found
            path.unlink()  # it was cut short
        except FileNotFoundError:
            pass
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as stream:
            stream.write(f"{secrets.token_hex(_BYTES)}\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(part, path)  # of two who do this at once, both read what one has written
        except FileExistsError:
            pass
        finally:
            part.unlink()
    return path.read_text("ascii").strip()


async def get_fingerprint(call: Call) -> Any:
    return await call.on_helper(partial(fingerprint, call.node.config.root))


def no_licence(call: Call) -> Any:
    raise Refusal({"error": "Licensing is not used"}, 501)


def get_usage_licenses(call: Call) -> Any:
    return []


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="registration_info",
        category="registration",
        summary="The version of svc; there is nothing to register.",
        permission=ANYONE,
        handler=registration_info,
        returns="`registered` (always false), `version`, and two members that are always null.",
        example={},
        example_answer={"registered": False, "version": __version__, "ram_allocation": None, "license_expiration_date": None},
    ),
    Operation(
        name="get_fingerprint",
        category="registration",
        summary="An id of this installation, which never changes.",
        permission=SUPER_USER,
        handler=get_fingerprint,
        returns="The id as a message: hexadecimal digits.",
        example={},
        example_answer={"message": "9f2c4e0d7b5a48c19d3e6f0a1b2c3d4e"},
    ),
    Operation(
        name="set_license",
        category="registration",
        summary="Install a licence. Licences are not used: 501.",
        permission=SUPER_USER,
        handler=no_licence,
        returns="Nothing; status 501.",
        example={},
    ),
    Operation(
        name="install_usage_license",
        category="registration",
        summary="Install a licence. Licences are not used: 501.",
        permission=SUPER_USER,
        handler=no_licence,
        returns="Nothing; status 501.",
        example={},
    ),
    Operation(
        name="get_usage_licenses",
        category="registration",
        summary="The installed licences: none.",
        permission=SUPER_USER,
        handler=get_usage_licenses,
        returns="An empty list.",
        example={},
        example_answer=[],
    ),
)
