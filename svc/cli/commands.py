"""COMMANDS, one row per command: dispatch, help and completion follow from it. Importing it costs nothing of what the commands need."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from svc import __version__
from svc.cli.arguments import Arguments

Run = Callable[[Arguments], int]


@dataclass(frozen=True)
class Command:
    """`usage`, `sentence`, `details`: for help. `flags`: the options without value that it takes. `choices`: what its argument may be."""

    name: str
    usage: str
    sentence: str
    run: Run
    details: str = ""
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    raw: bool = False
    """The command reads its own options."""


def _of(module: str, function: str) -> Run:
    """A function that is imported when it is called."""

    def run(arguments: Arguments) -> int:
        return cast(Run, getattr(import_module(module), function))(arguments)

    return run


COMMANDS = (
    Command(
        "run",
        "svc [run] [--strict] [APP]",
        "Run the server in the foreground; installs it first if needed. APP: one more application directory.",
        _of("svc.cli.serving", "run"),
        "Without an installation one is made first, in ~/svc or what ROOTPATH says. Nothing needs to be given: a first super user\n"
        "`admin` gets a random password, shown once. The applications in <root>/components are loaded, and APP beside them.\n"
        "Addresses, applications, root and log are printed on standard error, and what is wrong with an application with file and line:\n"
        "then it is served as far as it goes. --strict: with an error in an application svc is not started, exit status 1.\n\n"
        "Ctrl+C or SIGTERM stops: requests that are running are finished, a second signal stops at once. SIGHUP opens log files again.",
        flags=("strict",),
    ),
    Command(
        "dev",
        "svc dev [--https] [--strict] APP",
        "Run the server for development: changed files take effect at once, requests of this machine need no login.",
        _of("svc.cli.serving", "dev"),
        "Requests, reloads and errors are shown; the log file has everything. A version that cannot be loaded leaves the one before it serving.\n\n"
        "For this run only: the ports are opened at 127.0.0.1, authentication.authorizeLocal is on, logging.level is info, pages of this machine\n"
        "are allowed, DEV_MODE=true is set. --HTTP_HOST '*' --OPERATIONSAPI_NETWORK_HOST '*' lets other machines connect.\n"
        "Nothing of that is written into the configuration file.\n\n"
        "--https: make a certificate for localhost if there is none or it has expired, and print the address\n"
        "and the file of the authority, which a browser has to trust once.\n"
        "--strict: with an error in an application svc is not started, exit status 1.",
        flags=("https", "strict"),
    ),
    Command(
        "new",
        "svc new [--accounts] NAME",
        "Make a small working application in the directory NAME, with a test.",
        _of("svc.cli.developing", "new"),
        "NAME: letters, digits, - and _. Nothing that is there already is changed.\n"
        "--accounts: people sign up for it with their addresses, and each sees and changes tasks of their own.",
        flags=("accounts",),
    ),
    Command(
        "types",
        "svc types [--typescript] [DIR]",
        "Write the types of an application's tables, for mypy, pyright and editors, or for TypeScript.",
        _of("svc.cli.developing", "types"),
        "DIR: the application, by default this directory. Its schema files are read; no server is needed.\n"
        "Without an option: stubs in DIR/typings/svc, which pyright and editors find by themselves; mypy: mypy_path = typings.\n"
        "--typescript: types and a client of its addresses, without dependencies, in DIR/svc-client.ts or out=FILE.\n\n"
        "Files that are right already are left alone. Faults in the schema: exit status 1, and nothing is written.",
        flags=("typescript",),
    ),
    Command(
        "check-app",
        "svc check-app [--strict] [--json] [DIR ...]",
        "Check applications without starting a server: schema, roles, config.yaml, code; exit status 1 for errors.",
        _of("svc.cli.checking_apps", "check_app"),
        "DIR: the application, by default this directory. It is loaded in a process of its own, with an empty database, as before a deployment:\n"
        "what its modules do when they are imported is done. Nothing of the root is used or changed.\n"
        "Several directories are loaded one after the other, as by one server: what two of them both claim is an error of the later one.\n\n"
        "A type, a directive or an argument of one that is not known, which a server warns of and ignores, is an error here.\n"
        "--strict: exit status 1 for warnings, too.\n\n"
        "A line for each error and each warning: FILE:LINE:COLUMN: error: what. What the application prints goes to standard error.",
        flags=("json", "strict"),
    ),
    Command(
        "demo",
        "svc demo [OPTIONS]",
        "Fill a fresh directory with example tables and serve them; svc demo --help lists the options.",
        _of("svc.demo", "run"),
        raw=True,
    ),
    Command(
        "install",
        "svc install [--new-database]",
        "Only install: directories, configuration file, first super user. Asks for what is missing on a terminal.",
        _of("svc.cli.installing", "install"),
        "Values, as environment variable or option: ROOTPATH (~/svc), SVC_ADMIN_USERNAME (admin), SVC_ADMIN_PASSWORD (random, shown\n"
        "once), NODE_HOSTNAME (localhost), HTTP_HOST and OPERATIONSAPI_NETWORK_HOST (addresses to listen on, * for all), DEFAULTS_MODE (prod\n"
        "or dev), and every setting, which is written into the configuration file. An existing installation is not changed.\n\n"
        "--new-database: begin with an empty database and a new first super user where the data of an installation is lost. Without it\n"
        "such a root is not started, since the volume may just not be mounted.",
        flags=("new-database",),
    ),
    Command(
        "start",
        "svc start [--strict] [APP]",
        "Run the server in the background; returns when it answers, or with the reason why it does not.",
        _of("svc.cli.processes", "start"),
        "Errors in an application are printed with file and line, and the exit status is 0: it is served as far as it goes.\n"
        "--strict: then svc is not left running, and the exit status is 1.",
        flags=("strict",),
    ),
    Command("stop", "svc stop", "Stop the server and wait until it has ended.", _of("svc.cli.processes", "stop")),
    Command(
        "restart",
        "svc restart",
        "Renew the running server and wait until the new one answers; start it if it is not running.",
        _of("svc.cli.processes", "restart"),
        "A running server keeps the applications and settings it was started with on the command line and in its environment, from whatever\n"
        "directory svc restart is run; what changed in the file counts. One that does not run is started as by svc start, with the applications\n"
        "in <root>/components.\n"
        "svc restart target=... restarts another server, and does not wait.",
    ),
    Command(
        "status",
        "svc status [--all]",
        "Show whether the server is running, its addresses, applications and their faults; --all: of all roots of this user.",
        _of("svc.cli.processes", "status"),
        "status is running, stopped or not installed. interpreter is the Python of this command, which the server runs on too unless another\n"
        "started it. The output is YAML, with --json JSON.\n\n"
        "--all lists the roots that were installed or started by this user on this machine. No other command takes a root from that list.",
        flags=("all", "json"),
    ),
    Command(
        "log",
        "svc log [-f] [-n LINES]",
        "Show the last lines of the log file, and with -f those that follow.",
        _of("svc.cli.log_tail", "log"),
        "-n LINES: how many, 40 unless given. -f: go on until Ctrl+C, also when the file is rotated. The server need not run.\n"
        "svc read_log finds entries by level, time and text.",
        raw=True,
    ),
    Command(
        "config",
        "svc config check | show | set | unset",
        "Look for faults in the configuration, list its values and where each comes from, or change its file.",
        _of("svc.cli.config_commands", "config_command"),
        "svc config check        faults and warnings, with file, line and the setting that is spelt alike; exit status 1 for faults\n"
        "svc config check FILE   those of another file\n"
        "svc config show         all settings: value, and default, line of the file, environment variable or option\n"
        "svc config show http    those whose name begins with http; in a pipe, or with --json, as JSON\n"
        "svc config set http.port 8080 logging.level=info    change settings in the file, all of them or none\n"
        "svc config unset http.port                          take settings out of the file: they have their defaults again\n\n"
        "check and show see what a start would see, overrides included, and write nothing. set and unset keep comments, check the whole\n"
        "file, copy the one before to <root>/backup and say what waits for a restart. Values are written as for options; null is none.",
        flags=("json",),
        choices=("check", "show", "set", "unset"),
    ),
    Command(
        "deploy",
        "svc deploy [DIR] [NAME=VALUE ...]",
        "Pack the application in DIR, send it to the server of this root or to target=URL, and let it serve.",
        _of("svc.cli.deploying", "deploy"),
        "DIR is the current directory unless given, and names the project unless project=NAME does. restart=false leaves the running version until the\n"
        "next restart, restart=rolling renews one instance after the other. package=REFERENCE lets the server fetch the application instead, for example\n"
        "package=acme/shop#v2 or package=pypi:shop. Other names are the fields of deploy_component: svc help deploy_component.\n\n"
        "svc deploy . target=https://db.example project=shop\n\n"
        "What .gitignore names is not sent, nor are .git, .svc, .venv, venv, node_modules, .packages and caches such as __pycache__: what\n"
        "requirements.txt or pyproject.toml names is installed there.\n"
        "If anything fails, the version before goes on serving, and the exit status is 1.",
        flags=("insecure", "json"),
    ),
    Command(
        "package",
        "svc package NAME|DIR [out=FILE]",
        "Pack an application of the server, or a directory, into NAME.tar.gz.",
        _of("svc.cli.deploying", "package"),
        "A name that is no directory here is an application of the server of this root, or of target=URL.\n"
        "skip_symlinks=true leaves out symbolic links; skip_packages=false packs node_modules and .packages, too.",
        flags=("insecure",),
    ),
    Command(
        "login",
        "svc login [URL]",
        "Keep tokens for another server, so that operations with target=URL need no password.",
        _of("svc.cli.login", "login"),
        "Asks for address, user and password where they are not given (username=, password=). The tokens are kept in ~/.svc/credentials.json,\n"
        "readable for you only, and renewed when they expire. In a directory with a file .env, SVC_CLI_TARGET is set there.\n"
        "rejectUnauthorized=false or --insecure: the certificate of the server is not verified.",
        flags=("insecure",),
    ),
    Command(
        "passwd",
        "svc passwd [USER]",
        "Set the password of a user: of the server of this root, or the own one at target=URL.",
        _of("svc.cli.passwd", "passwd"),
        "Asks for the new password twice. On the machine of the server the current one is not needed, and USER is the first super user unless given.\n"
        "With target=URL it is the user that svc login, auth_username= or SVC_CLI_USERNAME name, and the current password is asked for; a super\n"
        "user may name another USER. All other sessions and tokens of the user end.\n"
        "Without a terminal: password_file=FILE and current_password_file=FILE, - is standard input.",
        flags=("insecure",),
    ),
    Command("logout", "svc logout [URL]", "Forget the tokens for one server, or all.", _of("svc.cli.login", "logout")),
    Command(
        "get",
        "svc get TABLE[/ID] | 'TABLE?QUERY' [as=USER]",
        "Show records of a table: all, one, or those of a query; as=USER: what that user sees of them.",
        _of("svc.cli.reading", "get"),
        "TABLE is a table of the database data, or DATABASE.TABLE. QUERY is one of the REST interface: svc get 'Issue?state==open&limit(5)' as=ann\n"
        "as=USER: by the rights of the user's role and the rules about rows (@allow). Without it all records are shown.\n"
        "target=URL: of another server, as for operations.",
        flags=("json", "insecure"),
    ),
    Command(
        "grant",
        "svc grant ROLE RIGHT[,RIGHT] TABLE[.ATTRIBUTE]",
        "Give a role rights on a table or an attribute: read, insert, update, delete. Makes the role if there is none.",
        _of("svc.cli.grants", "change"),
        "TABLE is a table of the database data, or DATABASE.TABLE. A right on an attribute is one on the table for that attribute and the key.\n"
        "svc grant anonymous read Product: everyone may read Product, without a login.\n"
        "svc grants shows the rights of all roles. target=URL: at another server, as for operations.",
        flags=("insecure",),
    ),
    Command(
        "revoke",
        "svc revoke ROLE RIGHT[,RIGHT] TABLE[.ATTRIBUTE]",
        "Take rights on a table or an attribute from a role. It counts from the next request on, subscriptions end.",
        _of("svc.cli.grants", "change"),
        flags=("insecure",),
    ),
    Command(
        "grants",
        "svc grants [ROLE]",
        "Show the rights of all roles, or of one.",
        _of("svc.cli.grants", "show_grants"),
        flags=("insecure", "json"),
    ),
    Command(
        "key",
        "svc key create NAME | list | revoke NAME",
        "Make an API key for a program, list them, or revoke one.",
        _of("svc.cli.keys", "key_command"),
        "svc key create NAME role=R expires=90d    a key with a role of its own; without expires= it counts until it is revoked\n"
        "svc key create NAME user=U                with the rights of a user; it ends with the user\n"
        "svc key list                              name, prefix, role or user, when it expires, when it was used last\n"
        "svc key revoke NAME                       or its prefix, svc_ and ten letters or digits. What it has opened ends at once\n\n"
        "The key is shown once, and stored as a hash. It is sent as Authorization: Bearer KEY. target=URL: at another server, as for operations.",
        flags=("insecure", "json"),
        choices=("create", "list", "revoke"),
    ),
    Command(
        "backup",
        "svc backup all | restore DIRECTORY",
        "Back up the whole installation into a new directory, or make it again from one.",
        _of("svc.cli.whole_backup", "backup_command"),
        "svc backup all DIRECTORY        configuration, keys, certificates, applications and all databases with logs and blobs, beside a server\n"
        "                                that runs or not. DIRECTORY must be new or empty; backup.json is written when it is complete\n"
        "svc backup restore DIRECTORY    makes the installation again in the root that --ROOTPATH names, which must be new or empty\n\n"
        "Each database is as of one moment, and none younger than another in what it needs: files first, then system, then the others.\n"
        "What the configuration names outside the root is told and not in it. A single database: svc create_backup, svc restore_backup.",
        choices=("all", "restore"),
    ),
    Command(
        "sql",
        "svc sql [STATEMENT]",
        "Run a SQL statement, those of standard input, or a shell for statements.",
        _of("svc.cli.sql.command", "sql"),
        "svc sql 'SELECT count(*) FROM data.Product'              one statement\n"
        "svc sql 'SELECT * FROM data.Product WHERE id = :id' --param id=7\n"
        "svc sql < FILE                                           several, each up to its ;, until the first that fails\n"
        "svc sql                                                  on a terminal: the shell; .help lists its commands\n\n"
        "--format table | csv | json | line   on a terminal a table, in a pipe JSON unless given; --json\n"
        "--param NAME=VALUE                   the value of :NAME, JSON or text; --param VALUE is that of the next ?\n\n"
        "The shell keeps what was typed in ~/.local/state/svc/sql_history and completes names if prompt_toolkit is installed:\n"
        "pip install 'svc[shell]'. target=URL: at another server, as for operations.",
        flags=("insecure", "json"),
        raw=True,
    ),
    Command(
        "job",
        "svc job run NAME | list",
        "Run a job of an application now, and wait for its end; or list the jobs with their next times.",
        _of("svc.cli.scheduled_jobs", "job_command"),
        "svc job run NAME [application=APP]    APP: needed where several applications have a job of that name. Exit status 1 if it fails\n"
        "svc job list                          the same as svc list_scheduled_jobs\n\n"
        "target=URL: at another server, as for operations.",
        flags=("insecure", "json"),
        choices=("run", "list"),
    ),
    Command(
        "renew-certs",
        "svc renew-certs",
        "Make a new server certificate, signed by the authority of this installation.",
        _of("svc.cli.maintenance", "renew_certs"),
        "It is for node.hostname; a running server takes it without a restart.",
    ),
    Command(
        "copy-db",
        "svc copy-db DATABASE FILE",
        "Write a compacted copy of a database to a new file, also while the server runs.",
        _of("svc.cli.maintenance", "copy_db"),
        "The copy is a snapshot of the database. Put it as data.mdb into a directory of its own below storage.path to use it.\n"
        "The files of large blobs are not in it; svc create_backup takes everything.",
    ),
    Command(
        "upgrade",
        "svc upgrade",
        "Bring data of an older version up to this one, as the next start would; the server must not run.",
        _of("svc.cli.maintenance", "upgrade"),
    ),
    Command(
        "check",
        "svc check [DIR]",
        "Check that tables, indexes and logs of the databases below DIR agree; exit status 1 if they do not.",
        _of("svc.cli.checking", "check"),
        "DIR is a root directory, a directory of databases or one database; without it the root of this installation. Reads only.",
    ),
    Command(
        "schema",
        "svc schema diff [--json] APP",
        "Show what a start with the application in the directory APP would change in the tables of this root.",
        _of("svc.cli.schema_commands", "schema_command"),
        "Tables and attributes that are new, changed, renamed or removed, indexes that are built, and how many stored values would not fit.\n"
        "It reads the files of the databases and changes nothing, whether a server runs or not.\n\n"
        "Exit status: 0 nothing would change, 2 something would, 1 something is wrong.",
        flags=("json",),
    ),
    Command(
        "completion",
        "svc completion SHELL",
        "Print a script that completes commands, operations and fields, for bash, zsh or fish.",
        _of("svc.cli.completion", "completion"),
        'bash: eval "$(svc completion bash)" in ~/.bashrc\n'
        'zsh:  eval "$(svc completion zsh)" in ~/.zshrc, after compinit\n'
        "fish: svc completion fish > ~/.config/fish/completions/svc.fish",
        choices=("bash", "zsh", "fish"),
    ),
    Command("version", "svc version", "Print the version; also svc --version.", _of("svc.cli", "version")),
    Command(
        "help",
        "svc help [COMMAND]",
        "Print this; svc help operations, svc help settings [SECTION] and svc help <operation> for more.",
        _of("svc.cli", "show_help"),
        "svc help run describes one command, svc help describe_table one operation, svc help operations lists all operations,\n"
        "svc help settings all settings, svc help settings http those of one section.",
    ),
)
BY_NAME = {
    command.name: command
    for command in (*COMMANDS, Command("start-in-session", "", "", _of("svc.cli.serving", "in_session"), flags=("strict",)))
}


def help_text(topic: str = "") -> str:
    """The list of commands, or what there is to know about one."""
    if topic:
        command = BY_NAME[topic]
        return f"{command.usage}\n\n{command.sentence}" + (f"\n\n{command.details}" if command.details else "")
    width = max(len(command.usage) for command in COMMANDS)
    commands = "\n".join(f"  {command.usage:{width}}  {command.sentence}" for command in COMMANDS)
    return f"""svc {__version__}: a database and application platform in one process.

{commands}

  svc <operation> [name=value ...]  Run an operation on the server, for example svc describe_all; svc help operations lists them.

Settings are in <root>/svc-config.yaml. Each can be given as an option or an environment variable, path joined by _ in any case:
  svc --HTTP_PORT 8080 --LOGGING_LEVEL=info        HTTP_PORT=8080 svc
An option beats the environment, both beat the file, and hold for what is started with them. To keep a value: svc config set http.port 8080.

The root is --ROOTPATH, else the environment variable ROOTPATH, else ./.svc if it is installed, else ~/svc.

Operations go to the server of this root through its Unix socket, as super user, or with target=URL to another one.
On a terminal they answer with tables and YAML, in a pipe with JSON; json=true and json=false choose.

Exit status: 0 fine, 1 failure, 4 already running, 141 closed pipe.

Examples:
  svc dev .                      develop the application in this directory
  svc run ~/apps/shop            serve it
  svc status --ROOTPATH /srv/svc
  svc search_by_value table=plant attribute=species value='f*'
  svc describe_all target=db.example auth_username=ann auth_password=...
  svc help run                   more about one command
  svc help settings logging      the settings of one section"""
