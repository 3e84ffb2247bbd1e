"""Documentation of the settings, made from SETTINGS: `docs/settings.md`, `docs/former-settings.md` and `svc help settings`.

python -m svc.config.reference docs
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from svc.config.setting import ACCESS_LOG_FIELDS, LOGGING_FIELDS, VERIFICATION_FIELDS, From, Setting
from svc.config.settings import LEGACY, SETTINGS, UNSERVED, WITHOUT_EFFECT

_INTRODUCTION = """# Settings

Made from `svc/config/sections.py` by `python -m svc.config.reference`; do not edit.

The file is `svc-config.yaml` in the root directory: nested mappings with the names below. Each setting can also be given as an environment
variable (`HTTP_PORT=8080`) or an option (`--HTTP_PORT 8080`): its path joined by `_`, in any case. Options beat the environment, both beat
the file, and hold for what is started with them; `svc config set http.port 8080` writes into the file.

A duration is a number in the unit shown, or a string: a number and `s`, `m`, `h`, `d`, `w` or `M` (30 days). A size is a number of bytes, or a
string: a number and `K`, `M` or `G` (powers of 1024). Relative paths start at the root directory.

Former names of settings, and settings that have no effect: [former-settings.md](former-settings.md).
"""

_FORMER_INTRODUCTION = """# Former settings

Made from `svc/config/sections.py` by `python -m svc.config.reference`; do not edit.

For those who come from an earlier version, or with a configuration of another product that knows these names: what is accepted, and does not belong into
a new configuration. Settings that count: [settings.md](settings.md).
"""


def default_text(setting: Setting) -> str:
    """The default as it would be written in the file."""
    default = setting.default
    if isinstance(default, From):
        return f"`<{default.name}>/{default.below}`" if default.below else f"that of `{default.name}`"
    if default is None:
        return "-"
    if default is True or default is False:
        return f"`{str(default).lower()}`"
    if isinstance(default, list):
        return f"`[{', '.join(repr(item) for item in default)}]`"
    if setting.kind == "path" and isinstance(default, str) and not default.startswith("~"):
        return f"`<rootPath>/{default}`"
    return f"`{default}`"


def kind_text(setting: Setting) -> str:
    text = setting.kind
    if setting.choices:
        text = ", ".join(f"`{choice}`" for choice in setting.choices) if setting.kind == "choice" else "level"
    elif setting.kind == "switch":
        text = "bool or mapping"
    if setting.unit and setting.kind != "size":
        text += f" ({setting.unit})"
    return text + (", null" if setting.null else "")


def _table(settings: Iterable[Setting]) -> str:
    rows = [f"| `{row.name}` | {kind_text(row)} | {default_text(row)} | {row.sentence} |" for row in settings]
    return "\n".join(["| Setting | Type | Default | |", "|---|---|---|---|", *rows])


def section_of(setting: Setting) -> str:
    return setting.name.partition(".")[0] if "." in setting.name else ""


def reference() -> str:
    """The whole of docs/settings.md."""
    effective = [setting for setting in SETTINGS if has_effect(setting)]
    parts = [_INTRODUCTION, "## Top level\n", _table(setting for setting in effective if not section_of(setting))]
    for section in dict.fromkeys(section_of(setting) for setting in effective if section_of(setting)):
        parts += [f"\n## {section}\n", _table(setting for setting in effective if section_of(setting) == section)]
    switches = {setting.name: setting.fields for setting in effective if setting.kind == "switch"}
    parts += ["\n## Logs of their own\n"]
    parts += ["The `logging` mapping of a section or component may hold:\n", _table(LOGGING_FIELDS)]
    parts += ["\nThat of `http` also:\n", _table(ACCESS_LOG_FIELDS[len(LOGGING_FIELDS) :])]
    parts += ["\n## Mappings instead of true\n"]
    for fields in dict.fromkeys(switches.values()):
        names = ", ".join(f"`{name}`" for name in switches if switches[name] == fields)
        parts += [f"{names}:\n", _table(fields), ""]
    parts += ["`certificateVerification` in those:\n", _table(VERIFICATION_FIELDS)]
    return "\n".join(parts) + "\n"


def has_effect(setting: Setting) -> bool:
    return section_of(setting) not in UNSERVED and setting.name not in UNSERVED


def former_reference() -> str:
    """The whole of docs/former-settings.md."""
    unserved = [setting for setting in SETTINGS if not has_effect(setting)]
    parts = [_FORMER_INTRODUCTION, "## Former names\n"]
    parts += [
        "Accepted in the file, the environment, on the command line and by `set_configuration`. If both names are given, the one of today counts.\n"
    ]
    parts += ["`disable_transaction_log` is inverted; `https_on` moves the port.\n"]
    parts += ["| Former | Today |", "|---|---|", *[f"| `{old}` | `{new}` |" for old, new in LEGACY.items()]]
    parts += ["\n## Settings without effect\n", "| Setting | Why |", "|---|---|"]
    parts += [f"| `{name}` | {sentence} |" for name, sentence in WITHOUT_EFFECT.items()]
    parts += ["\n## Settings of parts that this version does not have\n"]
    parts += ["They are checked for their type and kept.\n", _table(unserved)]
    return "\n".join(parts) + "\n"


PAGES = {"settings.md": reference, "former-settings.md": former_reference}


def settings_text(section: str = "") -> str:
    """The settings as plain text for a terminal; those of one section, or whose name begins with `section`."""
    wanted = section.lower().replace("_", ".")
    chosen = [row for row in SETTINGS if row.name.lower().startswith(wanted)]
    if not chosen:
        return f'No setting begins with "{section}".'
    lines = []
    for row in chosen:
        default = default_text(row).replace("`", "")
        lines.append(f"{row.name} ({kind_text(row).replace('`', '')}; default {default})\n    {row.sentence.replace('`', '')}")
    return "\n".join(lines)


if __name__ == "__main__":
    for name, make in PAGES.items():
        (Path(sys.argv[1]) / name).write_text(make(), encoding="utf-8")
