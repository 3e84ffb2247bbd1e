"""An `Identifier` out of plain keywords."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from svc.auth.identify import Admission, Credentials, Identifier
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import Clock

_CREDENTIALS, _ADMISSION = ({field.name for field in fields(part)} for part in (Credentials, Admission))
_OWN = {"origins", "events", "logins"}


def make_identifier(directory: UserDirectory, clock: Clock, **options: Any) -> Identifier:
    """`options`: fields of `Credentials` and `Admission`, what `Identifier` itself takes, or settings of a `Verifier` of its own."""
    credentials = {name: options.pop(name) for name in _CREDENTIALS & options.keys()}
    admission = {name: options.pop(name) for name in _ADMISSION & options.keys()}
    own = {name: options.pop(name) for name in _OWN & options.keys()}
    if "verifier" not in credentials:
        credentials["verifier"] = Verifier(directory, clock=clock, **options)
    return Identifier(directory, Credentials(**credentials), Admission(**admission), clock=clock, **own)
