"""One operation from its answer to the exit status."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from svc.cli import jobs
from svc.cli.arguments import Arguments, UsageError
from svc.cli.client import Unreachable
from svc.cli.operation_arguments import OperationArguments
from svc.cli.operations import MUST_RUN, NO_SOCKET, local_client, perform, remote_client, run_operation
from svc.config.document import write_document
from svc.operations.operation import Operation
from tests.support.cli import JOB_ROW, ROW, FakeAnswer, FakeClient


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "r"))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("SVC_", "CLI_TARGET"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(jobs, "pause", lambda seconds: None)
    return tmp_path


def run(*answers: Any, row: Operation = ROW, parameters: dict[str, Any] | None = None, flags: tuple[str, ...] = ()) -> int:
    client = FakeClient(*answers)
    return perform(client, row, {"operation": row.name}, OperationArguments({}, parameters or {}), Arguments(row.name, flags=set(flags)))


def test_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAnswer({"message": "painted"})) == 0
    assert run(FakeAnswer({"message": "painted"}), flags=("json",)) == 0
    assert run(FakeAnswer({"message": "painted"}), parameters={"json": False}) == 0
    assert capsys.readouterr().out == '{"message": "painted"}\n' * 2 + "message: painted\n"


def test_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAnswer({"error": "Table 'x' does not exist\x1b[2J"}, 404)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: Table 'x' does not exist\\x1b[2J\n"


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Unreachable("db:9925 cannot be reached: Connection refused")) == 1
    assert capsys.readouterr().err == "error: db:9925 cannot be reached: Connection refused\n"


def test_an_answer_that_breaks_off_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAnswer({"message": "painted"}, breaks=True)) == 1
    assert "broke" in capsys.readouterr().err


def test_bytes_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "backup.tar.gz"
    answer = FakeAnswer(content=b"0123456789", content_type="application/octet-stream")
    assert run(answer, parameters={"out": str(file)}) == 0
    assert file.read_bytes() == b"0123456789"
    assert capsys.readouterr().err == f"{file}: 10 bytes\n"
    assert run(FakeAnswer({"a": 1}), parameters={"out": str(file)}) == 0  # replaces it
    assert json.loads(file.read_text()) == {"a": 1}


def test_a_file_is_complete_or_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "backup.tar.gz"
    assert run(FakeAnswer(content=b"0123456789", content_type="application/octet-stream", breaks=True), parameters={"out": str(file)}) == 1
    assert run(FakeAnswer({"error": "database 'x' does not exist"}, 404), parameters={"out": str(file)}) == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="cannot be written"):
        run(FakeAnswer({}), parameters={"out": str(tmp_path / "nowhere" / "x")})


def test_bytes_without_a_file(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(FakeAnswer(content=b"01234\x1b[2J", content_type="application/octet-stream")) == 0
    assert capfdbinary.readouterr().out == b"01234\x1b[2J"
    assert run(FakeAnswer(content=b"plain text", content_type="text/plain")) == 0
    assert capfdbinary.readouterr().out == b"plain text\n"


def test_answers_that_are_nested_too_deeply(capsys: pytest.CaptureFixture[str]) -> None:
    deep: list[Any] = []
    for _ in range(800):
        deep = [deep]
    assert run(FakeAnswer(deep), parameters={"json": False}) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


# jobs

STARTED = FakeAnswer({"message": "Starting job with id 1", "job_id": "1"})


def job(status: str, **more: Any) -> FakeAnswer:
    return FakeAnswer([{"id": "1", "status": status, **more}])


def test_a_job_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STARTED, job("IN_PROGRESS"), job("COMPLETE", message="done", result={"path": "/x"}), row=JOB_ROW) == 0
    assert json.loads(capsys.readouterr().out) == {
        "job_id": "1",
        "id": "1",
        "status": "COMPLETE",
        "message": "done",
        "result": {"path": "/x"},
    }


def test_a_job_need_not_be_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STARTED, row=JOB_ROW, parameters={"wait": False}) == 0
    assert json.loads(capsys.readouterr().out) == {"message": "Starting job with id 1", "job_id": "1"}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Invalid column name 'a/b', cancelling load operation", "error: Invalid column name 'a/b', cancelling load operation\n"),
        (
            {"error": "This operation is not authorized", "unauthorized_access": ["x"]},
            'error: This operation is not authorized\n  unauthorized_access: ["x"]\n',
        ),
        (None, "error: the job has failed\n"),
    ],
)
def test_a_job_that_fails_is_a_failure(message: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STARTED, job("ERROR", message=message), row=JOB_ROW) == 1
    captured = capsys.readouterr()
    assert captured.err == text
    assert json.loads(captured.out)["status"] == "ERROR"


def test_a_job_goes_on_without_its_watcher(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STARTED, KeyboardInterrupt(), row=JOB_ROW) == 1
    assert "svc get_job id=1" in capsys.readouterr().err


# which server


def test_without_a_server_the_contracts_texts(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_operation(Arguments("paint", ["wall=n"]), ROW)
    assert str(caught.value).splitlines()[0] == MUST_RUN
    assert "svc is not installed in " in str(caught.value)
    (tmp_path / "r").mkdir()
    write_document(tmp_path / "r" / "svc-config.yaml", {})
    with pytest.raises(UsageError) as caught:
        run_operation(Arguments("paint", ["wall=n"]), ROW)
    assert str(caught.value).splitlines()[0] == MUST_RUN
    assert "No server runs in " in str(caught.value)


def test_a_running_server_without_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r").mkdir()
    monkeypatch.setattr("svc.root.lock.running_pid", lambda root: 4242)
    for document in ({}, {"operationsApi": {"network": {"domainSocket": None}}}):
        write_document(tmp_path / "r" / "svc-config.yaml", document)
        with pytest.raises(UsageError) as caught:
            local_client(Arguments("paint"))
        assert str(caught.value) == NO_SOCKET


def test_the_address_of_the_environment_and_of_dot_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(address: str, *rest: Any) -> FakeClient:
        asked.append(address)
        return FakeClient(FakeAnswer({"message": "painted"}))

    monkeypatch.setattr("svc.cli.operations.remote_client", note)
    (tmp_path / ".env").write_text("SVC_CLI_TARGET=from-file\n")
    assert run_operation(Arguments("paint", ["wall=n"]), ROW) == 0
    monkeypatch.setenv("SVC_CLI_TARGET", "from-environment")
    assert run_operation(Arguments("paint", ["wall=n"]), ROW) == 0
    assert run_operation(Arguments("paint", ["wall=n", "target=given"]), ROW) == 0
    assert asked == ["from-file", "from-environment", "given"]
    with pytest.raises(UsageError):  # target= is this machine
        run_operation(Arguments("paint", ["wall=n", "target="]), ROW)


@pytest.mark.parametrize(("parameters", "flags"), [({"rejectUnauthorized": False}, set()), ({}, {"insecure"})])
def test_verification_is_switched_off_with_a_warning(
    parameters: dict[str, Any], flags: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    client = remote_client("db.example", Arguments("paint", flags=flags), OperationArguments({}, parameters), {})
    assert not client.target.verified
    assert capsys.readouterr().err == "warning: the certificate of db.example is not verified\n"
    assert remote_client("db.example", Arguments("paint"), OperationArguments({}, {}), {}).target.verified
    assert capsys.readouterr().err == ""
