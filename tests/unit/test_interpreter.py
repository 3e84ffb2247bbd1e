from __future__ import annotations

import platform
from typing import Any

import pytest

from svc.interpreter import Interpreter, is_profile_guided, running_interpreter

GENERATE = {"PGO_PROF_GEN_FLAG": "-fprofile-generate"}


@pytest.mark.parametrize(
    ("variables", "answer"),
    [
        ({"CONFIG_ARGS": "'--prefix=/opt' '--enable-optimizations'", **GENERATE, "PGO_PROF_USE_FLAG": "-fprofile-use"}, True),
        ({"CONFIG_ARGS": "'--prefix=/opt'", **GENERATE, "PGO_PROF_USE_FLAG": "-fprofile-use"}, False),
        ({"CONFIG_ARGS": "", **GENERATE, "PGO_PROF_USE_FLAG": "-fprofile-use"}, False),
        ({"CONFIG_ARGS": "'--prefix=/usr'", **GENERATE, "PGO_PROF_USE_FLAG": ""}, True),  # Debian
        ({"CONFIG_ARGS": "'--prefix=/usr'"}, False),
        ({}, None),  # Windows
    ],
)
def test_the_build_variables_tell(variables: dict[str, Any], answer: bool | None) -> None:
    assert is_profile_guided(variables) is answer


def test_the_running_interpreter() -> None:
    interpreter = running_interpreter()
    assert interpreter.version == platform.python_version()
    assert str(interpreter).startswith(f"Python {platform.python_version()}, {interpreter.compiler}, built ")


@pytest.mark.parametrize(("profile_guided", "word"), [(True, "with"), (False, "without"), (None, "perhaps without")])
def test_as_a_sentence(profile_guided: bool | None, word: str) -> None:
    assert (
        str(Interpreter("3.11.7", "GCC 12.2.0", profile_guided)) == f"Python 3.11.7, GCC 12.2.0, built {word} profile-guided optimisation"
    )
