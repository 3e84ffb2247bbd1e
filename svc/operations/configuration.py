"""Reading and changing the configuration file (spec: operations §8; configuration §2, §3.1).

Names are flat: the path joined by `_`, in any case. What is set is checked together with the whole file, before anything is written.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from svc.config import Config, Document
from svc.config.document import changed, read_document, set_value, without_secrets
from svc.config.editing import Edit, edit_file
from svc.config.origins import flat_name, hint, nearest
from svc.config.overrides import changes_of
from svc.config.setting import Setting
from svc.config.settings import BY_NAME, SECTIONS, override_names, without_effect
from svc.config.values import cast_text, fault_text, is_given, lookup, parse
from svc.errors import ConfigError, ServerError
from svc.operations.call import Call
from svc.operations.edited_configuration import note_restart, tell_edited
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation

CHANGED = "Configuration successfully set. You must restart svc for new config settings to take effect."

MAX_DEPTH = 16  # of a value
MAX_TEXT = 1 << 16  # characters of a value's texts, together
MAX_PARAMETERS = 500  # in one call
_SHOWN_NAME = 100  # characters of an unknown name in a message

_NO_PARAMETERS = frozenset({"operation", "replicated", "impersonate", "svc_user", "bypass_auth", "parsed_sql_object"})
_COMPONENT = re.compile(r"([A-Za-z0-9_-]+)_(package|port)", re.IGNORECASE | re.ASCII)
_SECURE_PORTS = {"http.securePort": "http.port", "operationsApi.network.securePort": "operationsApi.network.port"}
"""Setting the first to what the second is moves the port: the second is closed."""

_NOWHERE = Path("/")  # a port needs no directory to be parsed in
_PORT = Setting("port", "port", None, "", null=True)


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def get_configuration(call: Call) -> Any:
    config = call.node.config
    if call["source"] == "start":
        return json_value(without_secrets(changed({}, dict(config.overrides))))
    if config.file is None or call["source"] == "run":
        return json_value(without_secrets(config.document))
    return call.on_helper(partial(_read, config))


def _read(config: Config) -> Any:
    assert config.file is not None
    try:
        return json_value(without_secrets(read_document(config.file)))
    except ConfigError as error:  # it is being edited
        raise ServerError(f"svc config file validation error: {error}") from error


def json_value(value: Any) -> Any:
    """A value of a YAML document with what JSON does not have as text: dates, binary values, numbers that are none."""
    if isinstance(value, dict):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [json_value(inner) for inner in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# --- changing -----------------------------------------------------------------------------------------------------------------------------


def set_configuration(call: Call) -> Any:
    wishes = {name: value for name, value in call.body.items() if name not in _NO_PARAMETERS}
    if not wishes:
        raise bad_request("No configuration parameter was given; name at least one, such as logging_level")
    if len(wishes) > MAX_PARAMETERS:
        raise bad_request(f"More than {MAX_PARAMETERS} configuration parameters were given")
    for name, value in wishes.items():
        fault = value_fault(value)
        if fault is not None:
            raise bad_request(f"'{name[:_SHOWN_NAME]}' {fault}")
    return _set(call, wishes)


async def _set(call: Call, wishes: Mapping[str, Any]) -> str:
    await edit_configuration(call, partial(with_wishes, wishes, frozenset(app.name for app in call.node.apps)))
    return CHANGED


async def edit_configuration(call: Call, change: Any) -> Edit:
    """Change the configuration file (see `config.editing`), log what is to be logged, and note which settings now wait for a restart.

    Raises the specification's 400 if the result is not valid.
    """
    node = call.node
    if node.config.file is None:
        raise ServerError("This node runs without a configuration file", 501)
    try:
        edit: Edit = await call.on_helper(partial(edit_file, node.config, change, node.clock))
    except ConfigError as error:
        raise bad_request(f"svc config file validation error: {error}") from error
    except OSError as error:
        raise ServerError(f"The configuration could not be written to {node.config.file.name}: {error.strerror}") from error
    for level, sentence in edit.notes:
        node.logs.logger.log(level, sentence)
    note_restart(node, edit.config)
    tell_edited(node)
    return edit


def with_wishes(wishes: Mapping[str, Any], apps: frozenset[str], document: Document) -> Document:
    """The document with these flat names set. `apps`: names of the loaded applications. Raises a 400 that names what is unknown or wrong.

    Where a former and today's name are given, today's wins.
    """
    current: dict[str, Any] = {}
    former: dict[str, Any] = {}
    components: list[tuple[str, str, Any]] = []
    packaged = {match[1].lower() for name in wishes if (match := _COMPONENT.fullmatch(name)) is not None and match[2].lower() == "package"}
    unknown: list[str] = []
    for name, value in wishes.items():
        setting = override_names().get(name.lower())
        if setting is not None:
            (current if setting in BY_NAME else former).update(changes_of(document, setting, value))
        elif name.lower() in without_effect() or name.lower().startswith("clustering_"):
            continue
        elif (found := _component(name, document, apps, packaged)) is not None:
            components.append((*found, value))
        else:
            unknown.append(name)
    if unknown:
        raise bad_request(*[f"Unrecognized config parameter: {name[:_SHOWN_NAME]}{_meant(name)}" for name in unknown[:10]])
    changes = {name: value for name, value in former.items() if name not in current} | current
    for secure, plain in _SECURE_PORTS.items():
        if changes.get(secure) is not None and plain not in changes and changes[secure] == _in_effect(document, plain):
            changes[plain] = None
    _check_root(changes, document)
    for name, value in changes.items():
        _check_way(document, name)
        set_value(document, name, value)
    for component, key, value in components:
        _set_component(document, component, key, value)
    return document


def _in_effect(document: Document, name: str) -> Any:
    """The value of a setting whose default is a plain value."""
    path = name.split(".")
    return lookup(document, path) if is_given(document, path) else BY_NAME[name].default


def _component(name: str, document: Document, apps: frozenset[str], packaged: set[str]) -> tuple[str, str] | None:
    """(component, `package` or `port`) of a parameter about a component: any with a package, a known one with a port."""
    match = _COMPONENT.fullmatch(name)
    if match is None:
        return None
    component, key = match[1], match[2].lower()
    if component in SECTIONS:
        return None
    known = {entry.lower(): entry for entry in (*apps, *(key for key in document if key not in SECTIONS))}
    component = known.get(component.lower(), component)
    if key == "port" and component.lower() not in known and component.lower() not in packaged:
        return None
    return component, key


def _set_component(document: Document, component: str, key: str, value: Any) -> None:
    plain = cast_text(value, "text" if key == "package" else "port") if isinstance(value, str) else value
    if key == "package" and plain is not None and (not isinstance(plain, str) or not plain):
        raise bad_request(f"svc config file validation error: '{component}.package' must be a string")
    if key == "port" and plain is not None:
        try:
            parse(plain, _PORT, _NOWHERE)
        except ValueError as error:
            raise bad_request(f"svc config file validation error: {fault_text(f'{component}.port', error)}") from error
    if isinstance(document.get(component), dict):
        document[component][key] = plain
    else:
        document[component] = {key: plain}


def _check_root(changes: Mapping[str, Any], document: Document) -> None:
    if "rootPath" in changes and changes["rootPath"] != document.get("rootPath"):
        raise bad_request(
            "svc config file validation error: 'rootPath' cannot be changed while svc runs: stop it, move the directory, start with --ROOTPATH"
        )


def _check_way(document: Document, name: str) -> None:
    """A list in the way, as `tls` may be, would be lost."""
    path = name.split(".")
    for length in range(1, len(path)):
        if isinstance(lookup(document, path[:length]), list):
            raise bad_request(f"'{name}' cannot be set, because '{'.'.join(path[:length])}' is a list; edit the file instead")


def _meant(name: str) -> str:
    """The end of the sentence about an unknown name."""
    flat = flat_name((name[:_SHOWN_NAME],))
    known = override_names()
    if flat in known:
        return hint(flat)
    if any(candidate.startswith(f"{flat}_") for candidate in known):
        example = next(candidate for candidate in known if candidate.startswith(f"{flat}_"))
        return f"; parameters are flat, such as '{example}'"
    return hint(nearest(flat, known))


def value_fault(value: Any) -> str | None:
    """What makes a value unfit for the file: None for plain JSON of a sensible size."""
    budget = MAX_TEXT
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            budget -= len(item)
            if not _is_encodable(item):
                return "contains characters that cannot be stored"
        elif isinstance(item, dict | list):
            budget -= len(item)
            if depth == MAX_DEPTH or budget < 0:
                return "is nested too deeply" if depth == MAX_DEPTH else "is too long"
            if isinstance(item, dict):
                if not all(isinstance(key, str) for key in item):
                    return "must be a JSON value"
                waiting += [(key, depth + 1) for key in item]
            waiting += [(inner, depth + 1) for inner in (item.values() if isinstance(item, dict) else item)]
        elif isinstance(item, float) and not math.isfinite(item):
            return "must be a JSON value"
        elif isinstance(item, int) and not -(2**63) <= item < 2**64:
            return "is too large a number"
        elif item is not None and not isinstance(item, bool | int | float):
            return "must be a JSON value"
        if budget < 0:
            return "is too long"
    return None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="get_configuration",
        category="configuration",
        summary="Read the configuration file.",
        permission=SUPER_USER,
        handler=get_configuration,
        fields=(
            Field(
                "source",
                "choice",
                "`file`; `run`: what is in effect since the start; `start`: of that what the environment, options and `svc dev` have set.",
                default="file",
                choices=("file", "run", "start"),
            ),
        ),
        returns="The file as a nested object, as it is stored: with changes that wait for a restart, and without defaults.",
        notes="What each setting means, and its default: [settings](../settings.md).",
        example={},
        example_answer={"rootPath": "/srv/svc", "http": {"port": 9926}, "logging": {"level": "warn"}},
    ),
    Operation(
        name="set_configuration",
        category="configuration",
        summary="Change settings in the configuration file.",
        permission=NEVER_GRANTED,  # it switches on `authorizeLocal`, trusts authorities, names applications to be loaded
        handler=set_configuration,
        fields=(REPLICATED,),
        returns="A message; `get_status` lists what waits for a restart.",
        notes=(
            "Each other key of the body is a [setting](../settings.md): its path joined by `_`, in any case, such as `http_port` or"
            ' `logging_rotation_maxSize`. Strings are cast: `"true"`, numbers, JSON lists and objects, `"undefined"` for null. The whole file is'
            " checked first, and stays as it is if anything is wrong with it; before it is replaced a copy goes to `backup/`. Comments in it are"
            " kept where only single values change. `<component>_package` and `<component>_port` set those of an application. Setting"
            " `http_securePort` to the number of `http.port` closes the plain port, and so for `operationsApi_network_securePort`. Levels, files and"
            " rotation of logs are taken over within five seconds, everything else at the next restart."
        ),
        example={"logging_level": "info"},
        example_answer={"message": CHANGED},
    ),
)
