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
