"""`svc backup all`, `svc backup restore`: a whole installation, beside the server (spec: configuration §6.1)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from svc.cli.arguments import RUNNING, Arguments, UsageError, complete_installation, fail, installation_of
from svc.cli.offline import watched
from svc.cli.preparing import read_config

if TYPE_CHECKING:
    from svc.config import Config

USAGE = """svc backup all DIRECTORY        back up this installation into a new directory
svc backup restore DIRECTORY    make the installation again in the root, which must be new or empty: --ROOTPATH names it"""


def backup_command(arguments: Arguments) -> int:
    from svc.errors import ConfigError, Problem
    from svc.root.installation import WrongUser
    from svc.root.lock import AlreadyRunning
    from svc.store.backup import BadBackup

    if len(arguments.words) != 2 or arguments.words[0] not in ("all", "restore"):
        raise UsageError(USAGE)
    directory = Path(arguments.words[1]).absolute()
    try:
        return (_make if arguments.words[0] == "all" else _restore)(arguments, directory)
    except AlreadyRunning as error:
        fail(error)
        return RUNNING
    except (BadBackup, ConfigError, WrongUser) as error:
        return fail(error)
    except Problem as error:
        return fail(error.message)
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else error)


def _make(arguments: Arguments, directory: Path) -> int:
    from svc.root.installation import check_user
    from svc.root.whole_backup import make_backup

    installation = complete_installation(arguments)
    check_user(installation)
    backup = make_backup(read_config(installation, arguments), directory, watched)
    print(f"{directory}: {', '.join(backup.databases)}, configuration, keys and deployed applications of {backup.root}")
    for path in backup.outside:
        print(f"Note: {path} is outside the root and not in the backup; the configuration names it.", file=sys.stderr)
    print("It holds passwords and keys: keep it as safe as the server.", file=sys.stderr)
    return 0


def _restore(arguments: Arguments, directory: Path) -> int:
    from svc.config.overrides import examine
    from svc.root.known_roots import remember_root
    from svc.root.lock import RootLock
    from svc.root.whole_backup import restore_backup

    installation = installation_of(arguments)
    root = installation.root

    def configuration(file: Path) -> Config:
        return examine(root, environ=os.environ, options=arguments.options, file=file).config

    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with RootLock(root, is_server=False):
        backup = restore_backup(directory, root, configuration, watched)
    remember_root(os.environ, installation.file)
    print(f"{root}: {', '.join(backup.databases)}, configuration, keys and deployed applications, as of {backup.time}")
    for path in backup.outside:
        print(f"Note: the configuration names {path}, which was not in the backup.", file=sys.stderr)
    return 0
