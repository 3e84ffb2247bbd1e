"""Statements and commands of the shell, one after the other, against one server (spec: sql §1)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from svc.cli.arguments import UsageError, nearest
from svc.cli.client import Answer, AuthenticationRefused, Client, Unreachable
from svc.cli.operation_arguments import parse_value
from svc.cli.output import counted, milliseconds, printable, printable_json, refuse, yaml_text
from svc.cli.sql.answers import StatementAnswer, StatementFailed
from svc.cli.sql.layout import DIM, JsonWriter, LineWriter, RowWriter, TableWriter, snippet
from svc.cli.sql.parameters import Parameters
from svc.cli.sql.schema import SchemaSource, SchemaTable
from svc.cli.sql.script import ScriptEntry, read_script
from svc.cli.sql.sinks import file_sink, standard_output
from svc.clock import SYSTEM_CLOCK, Clock

FORMATS = ("table", "csv", "json", "line")
MOST_ROWS = 1_000  # of a result on a terminal, in the shell
MOST_NESTED = 10  # files that are read by files
CSV = "text/csv"
CSV_FIRST = f"{CSV}, application/json;q=0.01"  # the server has a quality of its own for each type, that of CSV is low (spec: http §7.1)


class SessionEnded(Exception):
    """`.quit`."""


class Session:
    """`mode`: one of FORMATS. `limit`: rows of a result that a terminal gets, 0 for all."""

    def __init__(
        self, client: Client, parameters: Parameters, mode: str | None = None, *, in_shell: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`mode` None: a table on a terminal, else JSON."""
        self.schema = SchemaSource(client)
        self.parameters = parameters
        self.sink = standard_output()
        self.mode = mode or ("table" if self.sink.is_terminal else "json")
        self.limit = MOST_ROWS if in_shell else 0
        self.is_timed = self.sink.is_terminal
        self.explains = False
        self._client = client
        self._accept = client.accept
        self._clock = clock
        self._files: list[str] = []  # that are being read

    # --- scripts -------------------------------------------------------------------------------------------------------------------------

    def run_text(self, text: str) -> bool:
        """What was typed or given as an argument. False if something failed: what follows it is not run."""
        entries = list(read_script([text]))
        is_only = len(entries) == 1
        return all(self.run(entry, is_only=is_only) for entry in entries)

    def run_script(self, lines: Iterable[str]) -> bool:
        """Raises UsageError for what is not in UTF-8."""
        try:
            return all(self.run(entry) for entry in read_script(lines))
        except UnicodeDecodeError as error:
            raise UsageError(f"{self._files[-1] if self._files else 'standard input'} is not in UTF-8") from error

    def run(self, entry: ScriptEntry, *, is_only: bool = False) -> bool:
        """One statement or command; what is wrong is told on standard error."""
        try:
            if entry.is_command:
                return self._command(entry.text)
            self._statement(entry.text, is_only=is_only)
        except StatementFailed as error:
            refuse(f"{self._place(entry)}{error}")
            if error.position is not None:
                width = get_terminal_size().columns - 3
                print("\n".join(f"  {line}" for line in snippet(entry.text, error.position, width).splitlines()), file=sys.stderr)
        except UsageError as error:
            refuse(f"{self._place(entry)}{error}")
        except (Unreachable, AuthenticationRefused) as error:
            refuse(str(error))
        except RecursionError:
            refuse(f"{self._place(entry)}the answer is nested too deeply to be shown; as JSON, into a file or a pipe, it is kept as it is")
        else:
            return True
        return False

    def _place(self, entry: ScriptEntry) -> str:
        """Where in a script of several lines."""
        if self._files:
            return f"{self._files[-1]}:{entry.line}: "
        return f"line {entry.line}: " if entry.line > 1 else ""

    # --- statements ----------------------------------------------------------------------------------------------------------------------

    def _statement(self, text: str, *, is_only: bool) -> None:
        body: dict[str, Any] = {"operation": "sql", "sql": text}
        parameters = self.parameters.of(text, is_only=is_only)
        if parameters is not None:
            body["parameters"] = parameters
        if self.explains:
            body["explain"] = True
        began = self._clock.monotonic()
        self._client.accept = CSV_FIRST if self.mode == "csv" else self._accept
        answer = self._client.send(body)
        try:
            if answer.status != 200:
                raise StatementFailed(*answer.error())
            count = self._show(answer)
        finally:
            answer.close()
            self.sink.flush()
        self._note(count, self._clock.monotonic() - began)

    def _show(self, answer: Answer) -> str:
        """What there was, in words."""
        if self.mode == "csv" and answer.content_type == CSV:
            for piece in answer.chunks():
                self.sink.copy(piece)
            return ""
        if self.mode == "json" and not self.sink.is_terminal:
            return self._copy_json(answer)
        found = StatementAnswer(answer)
        writer = self._row_writer()
        count = 0
        limit = self.limit if self.sink.is_terminal else 0
        for batch in found.batches():
            count += len(batch)
            writer.rows(batch[: len(batch) - (count - limit)] if 0 < limit < count else batch)
            if 0 < limit < count:
                writer.end()
                return f"the first {counted(limit, 'row')}, there are more: .limit 0 shows all, .output FILE keeps them"
        if found.body is None:
            writer.end()
            return counted(count, "row")
        self._show_body(found.body)
        return ""

    def _copy_json(self, answer: Answer) -> str:
        """The bytes of the server; they are read as well, because a failure may be at their end."""
        found = StatementAnswer(answer, self.sink.copy)
        count = sum(map(len, found.batches()))
        self.sink.write("\n")
        return "" if found.body is not None else counted(count, "row")

    def _row_writer(self) -> RowWriter:
        if self.mode == "line":
            return LineWriter(self.sink.write, color=self.sink.has_color)
        if self.mode == "json":
            return JsonWriter(self.sink.write)
        return TableWriter(self.sink.write, width=self.sink.width, color=self.sink.has_color)

    def _show_body(self, body: Any) -> None:
        """The answer to a write, or a plan."""
        if self.mode == "json":
            self.sink.write(printable_json(json.dumps(body, ensure_ascii=False, indent=2)) + "\n")
            return
        if not isinstance(body, dict) or not isinstance(body.get("message"), str):
            self.sink.write(yaml_text(body))
            return
        self.sink.write(printable(body["message"], lines=True) + "\n")
        for name, value in body.items():
            if name != "message" and value:
                line = printable(f"{name}: {json.dumps(value, ensure_ascii=False)}")
                width = self.sink.width
                self.sink.write(f"  {line if width is None or len(line) + 2 < width else line[: max(width - 3, 1)] + '…'}\n")

    def _note(self, found: str, seconds: float) -> None:
        """Below a result on a terminal: how many rows, and how long it took."""
        text = ", ".join(part for part in (found, milliseconds(seconds) if self.is_timed else "") if part)
        if text and self.sink.is_terminal:
            self.sink.write(f"\x1b[{DIM}m{text}\x1b[0m\n" if self.sink.has_color else f"{text}\n")
            self.sink.flush()
        elif text and self.sink.name and sys.stderr.isatty():
            print(text, file=sys.stderr)

    # --- commands of the shell -----------------------------------------------------------------------------------------------------------

    def _command(self, line: str) -> bool:
        name, _, rest = line.rstrip("; ").partition(" ")
        command = BY_NAME.get(name)
        if command is None:
            near = nearest(name, list(BY_NAME))
            raise UsageError(f"{name} is no command of the shell. {f'Did you mean {near}?' if near else '.help lists them.'}")
        return command.run(self, rest.strip()) is not False

    def show_help(self, rest: str) -> None:
        width = max(len(command.usage) for command in COMMANDS)
        lines = [f"  {command.usage:{width}}  {command.sentence}" for command in COMMANDS]
        self.sink.write("\n".join(["A statement ends with ; and may have several lines. Ctrl-C cancels it.", "", *lines, ""]))

    def show_tables(self, rest: str) -> None:
        tables = [table for table in self.schema.read().tables() if rest.lower() in f"{table.database}.{table.name}".lower()]
        self._list(
            [{"table": f"{table.database}.{table.name}", "records": table.records, "columns": len(table.columns)} for table in tables]
        )

    def show_databases(self, rest: str) -> None:
        self._list([{"database": name, "tables": len(tables)} for name, tables in self.schema.read().databases.items()])

    def show_schema(self, rest: str) -> None:
        tables = [table for table in self.schema.read().tables() if rest in ("", table.name, f"{table.database}.{table.name}")]
        if not tables:
            known = [f"{table.database}.{table.name}" for table in self.schema.latest.tables()]
            near = nearest(rest, [*known, *(name.partition(".")[2] for name in known)])
            raise UsageError(f"there is no table {rest}. {f'Did you mean {near}?' if near else '.tables lists them.'}")
        for number, table in enumerate(tables):
            self.sink.write(("\n" if number else "") + printable(f"{table.database}.{table.name}") + "\n")
            self._list(_column_rows(table))

    def _list(self, rows: list[dict[str, Any]]) -> None:
        if not rows:
            self.sink.write("(none)\n")
        writer = TableWriter(self.sink.write, width=self.sink.width, color=self.sink.has_color)
        writer.rows(rows)
        writer.end()
        self.sink.flush()

    def set_mode(self, rest: str) -> None:
        if rest and rest not in FORMATS:
            raise UsageError(f".mode {' | '.join(FORMATS)}")
        self.mode = rest or self.mode
        if not rest:
            self.sink.write(f"{self.mode}\n")

    def set_timer(self, rest: str) -> None:
        self.is_timed = _switch(".timer", rest)

    def set_explain(self, rest: str) -> None:
        self.explains = _switch(".explain", rest)

    def set_limit(self, rest: str) -> None:
        if not (rest.isascii() and rest.isdecimal() and len(rest) < 10):
            raise UsageError(f".limit ROWS; now {self.limit}, 0 is no limit")
        self.limit = int(rest)

    def set_parameter(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if name == "clear":
            self.parameters = Parameters()
        elif name:
            self.parameters.named[name.lstrip(":@$")] = parse_value("value", value.strip())
        else:
            self._list([{"name": f":{name}", "value": value} for name, value in self.parameters.named.items()])

    def read_file(self, rest: str) -> bool:
        if not rest:
            raise UsageError(".read FILE")
        if len(self._files) >= MOST_NESTED:
            raise UsageError(f"{MOST_NESTED} files read each other")
        try:
            file = Path(rest).expanduser().open(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{rest} cannot be read: {error.strerror}") from error
        self._files.append(rest)
        try:
            with file:
                return self.run_script(file)
        finally:
            self._files.pop()

    def set_output(self, rest: str) -> None:
        sink = file_sink(rest) if rest else standard_output()
        self.sink.close()
        self.sink = sink

    def quit(self, rest: str) -> None:
        raise SessionEnded


def _column_rows(table: SchemaTable) -> list[dict[str, Any]]:
    return [{"column": column.name, "type": column.type, "": column.facts} for column in table.columns]


def _switch(command: str, rest: str) -> bool:
    if rest not in ("on", "off"):
        raise UsageError(f"{command} on | off")
    return rest == "on"


@dataclass(frozen=True)
class ShellCommand:
    """`run`: with what stands behind the name; False if it failed."""

    usage: str
    sentence: str
    run: Callable[[Session, str], object]

    @property
    def name(self) -> str:
        """With its dot."""
        return self.usage.partition(" ")[0]


COMMANDS = (
    ShellCommand(".tables [TEXT]", "The tables, or those with TEXT in their name.", Session.show_tables),
    ShellCommand(".schema [TABLE]", "The columns of all tables, or of one.", Session.show_schema),
    ShellCommand(".databases", "The databases.", Session.show_databases),
    ShellCommand(f".mode {'|'.join(FORMATS)}", "How results are shown.", Session.set_mode),
    ShellCommand(".limit ROWS", f"Rows of a result on the terminal, {MOST_ROWS} at first; 0 is no limit.", Session.set_limit),
    ShellCommand(".timer on|off", "Whether to show how long a statement took.", Session.set_timer),
    ShellCommand(".explain on|off", "Whether to show plans instead of results.", Session.set_explain),
    ShellCommand(".param [NAME VALUE]", "Set the value of :NAME, JSON or text; all of them; .param clear.", Session.set_parameter),
    ShellCommand(".read FILE", "Run the statements of a file, up to the first error.", Session.read_file),
    ShellCommand(".output [FILE]", "Write results to a file; without FILE to the terminal again.", Session.set_output),
    ShellCommand(".help", "This.", Session.show_help),
    ShellCommand(".quit", "Leave; also .exit and Ctrl-D.", Session.quit),
)
BY_NAME = {command.name: command for command in COMMANDS} | {".exit": COMMANDS[-1]}
