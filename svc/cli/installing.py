"""`svc install`: only the first run, asking on a terminal for missing values (spec: configuration §4)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from svc import __version__
from svc.cli.arguments import Arguments, installation_of
from svc.cli.preparing import locked_root, read_config, report_failed_start
from svc.root.secrets import erase_secrets

if TYPE_CHECKING:
    from svc.config import Config
    from svc.root.administrator import Administrator
    from svc.root.location import Installation


def install(arguments: Arguments) -> int:
    from svc.errors import ConfigError, Problem
    from svc.root.administrator import take_administrator
    from svc.root.installation import WrongUser, end_installation, make_keys
    from svc.root.lock import AlreadyRunning

    arguments.no_words()
    try:
        installation = installation_of(arguments)
        if installation.installed and not _may_begin(installation, arguments):
            print("svc is already installed.")
            return 0
        if not installation.installed and sys.stdin.isatty() and sys.stdout.isatty():
            _ask_missing(installation, arguments)
            installation = installation_of(arguments)
        administrator = take_administrator(os.environ, arguments.options)
        erase_secrets()
        with locked_root(installation, arguments, is_server=False, keeps_options=True) as (config, _):
            _create_system(config, administrator)
            end_installation(config.root)
            warning = make_keys(config, tokens=True)
            if warning is not None:
                print(f"Warning: {warning}", file=sys.stderr)
    except (AlreadyRunning, ConfigError, WrongUser, Problem) as error:
        return report_failed_start(error, sys.stderr)
    print(f"svc {__version__} is installed in {installation.root}. Start it with: {_start_command(installation)}")
    return 0


def _start_command(installation: Installation) -> str:
    """What starts this root from the same directory and environment."""
    import shlex

    from svc.root.location import find_installation

    if find_installation(os.environ, {}).root == installation.root:
        return "svc"

    return f"svc --ROOTPATH {shlex.quote(str(installation.root))}"


def _may_begin(installation: Installation, arguments: Arguments) -> bool:
    """Whether an installed root gets a new system database. Raises ConfigError if it has none and `--new-database` is not given, or if it has one."""
    from svc.errors import ConfigError
    from svc.root.installation import INSTALLING, begin_database, has_database, require_database

    config = read_config(installation, arguments)
    if has_database(config):
        if "new-database" in arguments.flags:
            raise ConfigError(f"There is a system database in {config.storage.path} already")
        return False
    if "new-database" in arguments.flags:
        begin_database(installation.root)
    require_database(config)
    return (installation.root / INSTALLING).exists()


def _ask_missing(installation: Installation, arguments: Arguments) -> None:
    """Ask for values that are neither in the environment nor on the command line; Enter takes the default."""
    import getpass

    given = {name.lower() for source in (os.environ, arguments.options) for name, value in source.items() if value}
    if "rootpath" not in given:
        arguments.options["ROOTPATH"] = input(f"Root directory [{installation.root}]: ").strip() or str(installation.root)
    if "svc_admin_username" not in given:
        arguments.options["SVC_ADMIN_USERNAME"] = input("Name of the first super user [admin]: ").strip() or "admin"
    if "svc_admin_password" not in given:
        password = getpass.getpass("Password (empty: one is made up and shown once): ")
        if password:
            arguments.options["SVC_ADMIN_PASSWORD"] = password
    if "node_hostname" not in given:
        arguments.options["NODE_HOSTNAME"] = input("Name of this node [localhost]: ").strip() or "localhost"
    _ask_hosts(installation_of(arguments), arguments, given)


def _ask_hosts(installation: Installation, arguments: Arguments, given: set[str]) -> None:
    """Ask where the ports are opened; Enter leaves what would be written."""
    from svc.config.addresses import parse_listen_addresses
    from svc.config.values import lookup
    from svc.root.installation import first_document

    document = first_document(installation.root, os.environ, arguments.options, installation.template)
    for section, name in (("http", "applications"), ("operationsApi.network", "operations")):
        option = f"{section}.host".replace(".", "_").upper()
        if option.lower() in given:
            continue
        usual = lookup(document, [*section.split("."), "host"])
        usual = ", ".join(usual) if isinstance(usual, list) else usual
        while answer := input(f"Addresses of the ports for {name}, * for all, 127.0.0.1 for this machine only [{usual}]: ").strip():
            try:
                parse_listen_addresses(answer)
            except ValueError as error:
                print(f"The answer {error}")
                continue
            arguments.options[option] = answer
            break


def _create_system(config: Config, administrator: Administrator) -> None:
    """The system database, the role `super_user` and the first super user, as the server's start makes them."""
    from svc.auth.first_super_user import ensure_first_super_user
    from svc.clock import SYSTEM_CLOCK
    from svc.root.administrator import PASSWORD_FILE, keep_initial_password
    from svc.root.data_version import ensure_version
    from svc.store import Store

    store = Store(config.storage.path, node=config.node_name)
    try:
        ensure_version(store, SYSTEM_CLOCK)
        first = ensure_first_super_user(
            store,
            administrator.username,
            administrator.password,
            password_file=config.root / PASSWORD_FILE,
            hash_function=config.authentication.hash_function,
            min_length=config.authentication.password_min_length,
        )
    finally:
        store.close()
    if first is not None and first.password is not None:
        keep_initial_password(config.root, first.username, first.password, sys.stderr)
