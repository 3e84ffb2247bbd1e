"""The cases of the Autobahn test suite, run by kosoku's fuzzing client against a real process.

Groups 12 and 13 send up to 1000 compressed messages of up to 128 KiB per case, minutes of work for both ends: HYPOTHESIS_PROFILE=nightly runs them
all. Otherwise one case of each sub-group is, with the sizes of small messages by turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kosoku import FailureError, run_fuzzingclient

from tests.integration.socket_process import SocketProcess
from tests.support.profile import NIGHTLY

pytestmark = pytest.mark.programs

LIMIT = 1800.0 if NIGHTLY else 600.0  # seconds
ATTEMPTS = 3
GROUPS = {"1.*": 16, "2.*": 11, "3.*": 7, "4.*": 10, "5.*": 20, "6.*": 145, "7.*": 37, "9.*": 54, "10.*": 1}
SMALL = 6  # of the cases of each sub-group of 12 and 13: the later, the larger their messages
OPTIONS = ["--deflate", "--takeover"]


@pytest.fixture(scope="module")
def server() -> Iterator[SocketProcess]:
    process = SocketProcess()
    yield process
    process.stop()
    assert process.errors == ""


def conforms(url: str, cases: list[str], count: int, concurrency: int = 2) -> None:
    """All of them do what the suite calls right: not merely acceptable.

    The client gives an answer a second, in many cases, and goes away then. So a case that fails is repeated alone: a machine that is busy is no fault.
    """

    async def ask(cases: list[str], concurrency: int) -> dict[str, str]:
        """The faults of cases, by their names."""
        try:
            results = await asyncio.wait_for(run_fuzzingclient(url, cases, concurrency=concurrency), LIMIT)
        except FailureError as failure:
            results = failure.results
        assert len(results) == count
        return {
            result.case_id: f"{result.behavior.value}, {result.behavior_close.value}: {result.result} {result.result_close}"
            for result in results
            if not result.passed or "NON-STRICT" in (result.behavior.value, result.behavior_close.value)
        }

    faults = asyncio.run(ask(cases, concurrency))
    for _ in range(ATTEMPTS - 1):
        if faults:
            count = len(faults)
            faults = asyncio.run(ask(list(faults), 1))
    assert faults == {}


@pytest.mark.parametrize("path", ["/echo", "/iterate", "/wait"])
def test_frames_and_messages(server: SocketProcess, path: str) -> None:
    small = [group for group in GROUPS if group != "9.*"]
    conforms(server.url + path, small, sum(GROUPS[group] for group in small), concurrency=8)  # many of them wait for a second
    if NIGHTLY or path == "/echo":
        conforms(server.url + path, ["9.*"], GROUPS["9.*"])
    else:
        some = [f"9.{group}.{number}" for group in range(1, 9) for number in (1, 4)]  # messages are of up to 16 MiB: one path gets all
        conforms(server.url + path, some, len(some))


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # kosoku's test data
@pytest.mark.parametrize("option", OPTIONS)
def test_compression(option: str) -> None:
    groups = [f"12.{number}" for number in range(1, 6)] + [f"13.{number}" for number in range(1, 8)]
    if NIGHTLY:
        cases, count, concurrency = ["12.*", "13.*"], 216, 1  # some take all of the 30 s the client gives them
    else:
        first = OPTIONS.index(option) * SMALL // 2
        cases = [f"{group}.{(first + position) % SMALL + 1}" for position, group in enumerate(groups)]
        count, concurrency = len(cases), 2
    # The client counts messages that are not compressed as failures of its own.
    process = SocketProcess(option, "--min-size", "0")
    try:
        conforms(f"{process.url}/iterate", cases, count, concurrency)
    finally:
        process.stop()
    assert process.errors == ""
