"""`svc completion bash|zsh|fish`: scripts that complete commands, operations, the names of their fields and what a field may be.

They are made from COMMANDS and the rows of the operations and ask nothing when they run, so completing takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from svc.cli.arguments import FLAGS, Arguments, UsageError
from svc.cli.commands import COMMANDS, Command
from svc.cli.operation_arguments import PARAMETERS
from svc.cli.operation_help import plain

if TYPE_CHECKING:
    from svc.operations.row_file import FieldRow, OperationRow

HOW = {
    "bash": 'eval "$(svc completion bash)"     in ~/.bashrc',
    "zsh": 'eval "$(svc completion zsh)"      in ~/.zshrc, after compinit',
    "fish": "svc completion fish > ~/.config/fish/completions/svc.fish",
}

DIRECTORIES = frozenset({"run", "dev", "start", "check", "types", "deploy", "package"})
"""Commands whose argument is a directory."""

FIELDS = {"deploy": ("deploy_component", "payload="), "package": ("package_component", "project=")}
"""Commands that take the fields of an operation -> its name, and the field that they fill in themselves."""

_SWITCHES = frozenset({"json", "wait", "rejectUnauthorized"})


def completion(arguments: Arguments) -> int:
    from svc.operations.row_file import row_file

    shell = arguments.words[0] if arguments.words else ""
    if shell not in HOW or len(arguments.words) > 1:
        raise UsageError("svc completion prints a script; switch it on with\n" + "\n".join(f"  {line}" for line in HOW.values()))
    print(script(shell, COMMANDS, row_file().rows), end="")
    return 0


def script(shell: str, commands: Iterable[Command], rows: Iterable[OperationRow]) -> str:
    """The whole script for a shell in HOW."""
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    commands = tuple(commands)
    taken = {command.name for command in commands}
    return make(commands, tuple(row for row in rows if row.name not in taken))


def words_of(row: OperationRow) -> tuple[str, ...]:
    """The words that may follow an operation: `name=` of each field, then of the command line's parameters."""
    return tuple(dict.fromkeys([*(f"{field.name}=" for field in row.fields), *(f"{name}=" for name in PARAMETERS)]))


def words_of_command(command: Command, rows: Iterable[OperationRow]) -> tuple[str, ...]:
    """The words `name=` that may follow a command."""
    if command.name == "types":
        return ("out=",)
    operation, filled_in = FIELDS.get(command.name, ("", ""))
    return tuple(word for row in rows if row.name == operation for word in words_of(row) if word != filled_in)


def values_of(field: FieldRow) -> tuple[str, ...]:
    """The values of a field, if they are known."""
    return tuple(field.choices) or (("true", "false") if field.kind == "bool" else ())


def _values(rows: Iterable[OperationRow]) -> Mapping[str, tuple[str, ...]]:
    """Field -> its values, of all operations together: a script with a list per operation would be many times as long."""
    found: dict[str, dict[str, None]] = {name: {"true": None, "false": None} for name in sorted(_SWITCHES)}
    for row in rows:
        for field in row.fields:
            for value in values_of(field):
                found.setdefault(field.name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _topics(commands: Iterable[Command], rows: Iterable[OperationRow]) -> list[str]:
    return [*(command.name for command in commands), *(name for row in rows for name in row.names)]


# --- bash, and zsh through the same lists -----------------------------------------------------------------------------------------------


def _cases(commands: tuple[Command, ...], rows: Sequence[OperationRow], indent: str = "    ") -> str:
    """The branches of a `case` over the first word that set `candidates`."""
    lines = []
    topics = " ".join(_topics(commands, rows))
    for command in commands:
        if command.name == "help":
            lines.append(f'{indent}help) candidates="settings operations {topics}" ;;')
        elif command.choices:
            lines.append(f'{indent}{command.name}) candidates="{" ".join(command.choices)}" ;;')
        elif command.name in DIRECTORIES:
            lines.append(f'{indent}{command.name}) folders=1 candidates="{" ".join(words_of_command(command, rows))}" ;;')
    lines += [f'{indent}{"|".join(row.names)}) candidates="{" ".join(words_of(row))}" ;;' for row in rows]
    return "\n".join(lines)


def _bash(commands: tuple[Command, ...], rows: Sequence[OperationRow]) -> str:
    values = "\n".join(f'      {name}=) candidates="{" ".join(found)}" ;;' for name, found in _values(rows).items())
    flags = " ".join(f"--{flag}" for flag in sorted(FLAGS))
    return f"""# Completion of svc for bash: {HOW["bash"].split("  ")[0]}
_svc() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" candidates="" folders="" name=""
  # bash takes = for a word of its own: put "name = value" together again
  if [[ $current == "=" ]]; then
    name="${{COMP_WORDS[COMP_CWORD-1]}}=" current=""
  elif [[ $COMP_CWORD -gt 1 && ${{COMP_WORDS[COMP_CWORD-1]}} == "=" ]]; then
    name="${{COMP_WORDS[COMP_CWORD-2]}}="
  elif [[ $current == [a-zA-Z]*=* ]]; then
    name="${{current%%=*}}=" current="${{current#*=}}"
  fi
  COMPREPLY=()
  if [[ -n $name ]]; then
    case "$name" in
{values}
      out=) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    COMPREPLY=($(compgen -W "$candidates" -- "$current"))
    return
  fi
  if [[ $COMP_CWORD -le 1 ]]; then
    COMPREPLY=($(compgen -W "{" ".join(_topics(commands, rows))}" -- "$current"))
    return
  fi
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "{flags} --help" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{_cases(commands, rows)}
  esac
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
  [[ -n $folders ]] && COMPREPLY+=($(compgen -d -- "$current"))
  [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}}
complete -F _svc svc
"""


def _zsh(commands: tuple[Command, ...], rows: Sequence[OperationRow]) -> str:
    values = "\n".join(f"      {name}) choices=({' '.join(found)}) ;;" for name, found in _values(rows).items())
    described = [*((command.name, command.sentence) for command in commands), *((row.name, plain(row.summary)) for row in rows)]
    first = "\n".join(f"      {_zsh_quoted(f'{name}:{sentence}')}" for name, sentence in described)
    cases = _cases(commands, rows).replace("folders=1 ", "_files -/; ")
    return f"""#compdef svc
# Completion of svc for zsh: {HOW["zsh"].split("  ")[0]}
_svc() {{
  local -a first choices
  local candidates="" name=""
  if (( CURRENT == 2 )); then
    first=(
{first}
    )
    _describe command first
    return
  fi
  if [[ $PREFIX == [a-zA-Z]*=* ]]; then
    name="${{PREFIX%%=*}}"
    compset -P '*='
    case "$name" in
{values}
      out) _files; return ;;
    esac
    compadd -a choices
    return
  fi
  case "${{words[2]}}" in
{cases}
  esac
  compadd -S '' -- ${{(M)${{=candidates}}:#*=}}
  compadd -- ${{${{=candidates}}:#*=}}
}}
compdef _svc svc
"""


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish -------------------------------------------------------------------------------------------------------------------------------


def _fish(commands: tuple[Command, ...], rows: Sequence[OperationRow]) -> str:
    lines = [f"# Completion of svc for fish: {HOW['fish']}", "complete -c svc -f"]
    lines += [f"complete -c svc -l {flag}" for flag in sorted(FLAGS)]
    for command in commands:
        lines.append(f"complete -c svc -n __fish_use_subcommand -a {command.name} -d {_fish_quoted(command.sentence)}")
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.name == "help":
            lines.append(f"complete -c svc {seen} -a 'settings operations {' '.join(_topics(commands, rows))}'")
        elif command.choices:
            lines.append(f"complete -c svc {seen} -a '{' '.join(command.choices)}'")
        elif command.name in DIRECTORIES:
            lines.append(f"complete -c svc {seen} -a '(__fish_complete_directories)'")
            words = " ".join(words_of_command(command, rows))
            if words:
                lines.append(f"complete -c svc {seen} -a {_fish_quoted(words)}")
    for row in rows:
        lines.append(f"complete -c svc -n __fish_use_subcommand -a {row.name} -d {_fish_quoted(plain(row.summary))}")
        seen = f"-n '__fish_seen_subcommand_from {' '.join(row.names)}'"
        for field in row.fields:
            known = values_of(field)
            candidates = " ".join(f"{field.name}={value}" for value in known) if known else f"{field.name}="
            lines.append(f"complete -c svc {seen} -a {_fish_quoted(candidates)} -d {_fish_quoted(plain(field.sentence))}")
        lines.append(f"complete -c svc {seen} -a {_fish_quoted(' '.join(f'{name}=' for name in PARAMETERS))}")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
