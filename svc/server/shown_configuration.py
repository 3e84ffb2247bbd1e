"""`server.config`: the configuration as application code sees it, in the form of the file, with the defaults filled in (spec: http §12.7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from svc.config import Config
from svc.config.document import without_secrets
from svc.config.setting import From
from svc.config.settings import SETTINGS


def shown_configuration(config: Config) -> Mapping[str, Any]:
    """A mapping of mappings that cannot be changed. What the file does not have is its default; paths are absolute."""
    shown = _copy(without_secrets(config.document))
    for setting in SETTINGS:
        section, _, _ = setting.name.partition(".")
        if (section == "replication" and config.replication is None) or (section == "mail" and config.mail is None):
            continue
        value = config.values.get(setting.name)
        if isinstance(value, Path):
            _fill(shown, setting.name, str(value), over=True)
        elif not isinstance(setting.default, From):
            _fill(shown, setting.name, setting.default, over=False)
        elif value is not None and isinstance(value, (str, bool)):
            _fill(shown, setting.name, value, over=False)
    frozen: Mapping[str, Any] = _frozen(shown)
    return frozen


def _fill(shown: dict[str, Any], name: str, value: Any, *, over: bool) -> None:
    *sections, last = name.split(".")
    for section in sections:
        inner = shown.get(section)
        if inner is None:
            inner = shown[section] = {}
        if not isinstance(inner, dict):
            return  # a form of its own, such as a list of TLS entries
        shown = inner
    if over or last not in shown:
        shown[last] = value


def _copy(value: Any) -> Any:
    return {str(key): _copy(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(inner) for key, inner in value.items()})
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list | tuple) else value
