"""Stored forms and what they match (spec: security §1.3)."""

from base64 import b64encode
from hashlib import md5, pbkdf2_hmac

import pytest
from argon2 import PasswordHasher

from svc.auth import passwords
from svc.auth.passwords import NO_MATCH, hash_function_of, hash_password, is_acceptable, verify_password


@pytest.fixture(autouse=True)
def costs(monkeypatch: pytest.MonkeyPatch, real_argon2: PasswordHasher) -> None:
    monkeypatch.setattr(passwords, "_ARGON2", real_argon2)


@pytest.mark.parametrize("function", ["argon2id", "sha256"])
def test_round_trip(function: str) -> None:
    stored = hash_password("s3crët:", function)
    assert hash_function_of(stored) == function
    assert verify_password("s3crët:", stored, function).matches
    assert verify_password("s3crët:", stored, function).replacement is None
    assert verify_password("s3cret:", stored, function) is NO_MATCH
    assert hash_password("s3crët:", function) != stored


def test_forms(real_rounds: int) -> None:
    assert real_rounds >= 600_000
    assert hash_password("x").startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    name, rounds, salt, digest = hash_password("x", "sha256").split("$")
    assert (name, rounds, len(salt), len(digest)) == ("pbkdf2_sha256", "1000", 24, 44)
    with pytest.raises(ValueError):
        hash_password("x", "md5")


def test_any_pbkdf2_rounds_verify_and_few_are_replaced() -> None:
    digest = pbkdf2_hmac("sha256", b"pw", b"salt", 10)
    stored = f"pbkdf2_sha256$10${b64encode(b'salt').decode()}${b64encode(digest).decode()}"
    found = verify_password("pw", stored, "sha256")
    assert found.matches and found.replacement is not None and found.replacement.startswith("$argon2id$")
    assert verify_password("no", stored, "sha256") is NO_MATCH


def test_weak_argon2_is_replaced() -> None:
    from argon2 import PasswordHasher

    stored = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("pw")
    assert verify_password("pw", stored).replacement is not None


@pytest.mark.parametrize("salt", ["", "abcdefghi"])
def test_md5_is_only_verified_and_replaced(salt: str) -> None:
    stored = salt + md5(("pw" + salt).encode()).hexdigest()
    found = verify_password("pw", stored, "md5", "sha256")
    assert found.matches and found.replacement is not None and verify_password("pw", found.replacement).matches
    assert verify_password("no", stored, "md5") is NO_MATCH
    assert verify_password("pw", stored) is NO_MATCH  # only where the user's record says so


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "x",
        "$argon2id$",
        "$argon2id$v=19$m=8,t=1,p=1$$",
        "pbkdf2_sha256$x$y$z",
        "pbkdf2_sha256$10$$",
        "pbkdf2_sha256$-1$AA==$AA==",
        "a$b",
        "pbkdf2_sha256$99999999999999999999$AA==$AA==",
    ],
)
@pytest.mark.parametrize("function", [None, "sha256", "md5"])
def test_damaged_hashes_match_nothing(stored: str, function: str | None) -> None:
    assert verify_password("pw", stored, function) is NO_MATCH


@pytest.mark.parametrize("function", ["argon2id", "sha256"])
def test_no_user_costs_a_verification_and_never_matches(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    matches = passwords._matches
    monkeypatch.setattr(passwords, "_matches", lambda password, stored: seen.append(stored) or matches(password, stored))
    assert verify_password("", None, None, function) is NO_MATCH
    assert hash_function_of(seen[0]) == function


def test_dummies_are_well_formed() -> None:
    """A malformed dummy would be refused at once, and the time would tell that there is no such user."""
    from argon2 import extract_parameters

    dummy = passwords._DUMMIES["argon2id"]
    assert extract_parameters(dummy) == extract_parameters(hash_password("x"))
    assert len(dummy) == len(hash_password("x"))


def test_acceptable_passwords() -> None:
    assert is_acceptable("x") and is_acceptable(" x ")
    assert not any(map(is_acceptable, ["", "  ", "\t\n", None, 5]))
