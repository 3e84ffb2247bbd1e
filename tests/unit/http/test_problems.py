"""Errors as answers: the one that is prepared."""

from __future__ import annotations

from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, Problem
from svc.http.problems import problem_response


def test_the_prepared_refusal_says_what_any_other_says() -> None:
    types = ContentTypes.built_in()
    refusal, other = problem_response(AccessViolation(), types), problem_response(Problem("Must login", 401, AccessViolation().code), types)
    assert (refusal.status, refusal.body, refusal.pairs) == (other.status, other.body, other.pairs)
    assert problem_response(AccessViolation(None, "Other"), types).body != refusal.body


def test_a_refusal_that_code_has_changed_is_not_the_prepared_one() -> None:
    types = ContentTypes.built_in()
    prepared = problem_response(AccessViolation(), types)
    for name, value in (("code", "SECOND_FACTOR_NEEDED"), ("errors", ("Too old",)), ("faults", ({"key": "a"},)), ("retryable", True)):
        changed = AccessViolation()
        setattr(changed, name, value)
        assert problem_response(changed, types).body != prepared.body, name
    changed = AccessViolation()
    changed.headers = (("Retry-After", "1"),)
    assert ("Retry-After", "1") in problem_response(changed, types).pairs
    assert problem_response(AccessViolation(), types).pairs == prepared.pairs


def test_what_is_added_to_a_prepared_refusal_is_not_in_the_next() -> None:
    types = ContentTypes.built_in()
    first = problem_response(AccessViolation(), types)
    first.pairs.append(("WWW-Authenticate", "Basic"))
    assert problem_response(AccessViolation(), types).pairs == [("Content-Type", "application/problem+json")]
