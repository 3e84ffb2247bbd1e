"""Addresses that ports are opened at: how they are written."""

from __future__ import annotations

import pytest

from svc.config.addresses import parse_listen_addresses, parse_networks


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("*", ("*",)),
        ("127.0.0.1", ("127.0.0.1",)),
        ("Localhost", ("localhost",)),
        ("[::1]", ("::1",)),
        ("0:0:0:0:0:0:0:1", ("::1",)),
        ("::ffff:10.0.0.7", ("10.0.0.7",)),
        ("fe80::1%eth0", ("fe80::1%eth0",)),
        (" 127.0.0.1 , ::1", ("127.0.0.1", "::1")),
        (["10.0.0.7", "10.0.0.7", "localhost"], ("10.0.0.7", "localhost")),
        (["0.0.0.0", "::"], ("0.0.0.0", "::")),
        (["0.0.0.0", "::1"], ("0.0.0.0", "::1")),
    ],
)
def test_addresses(value: object, expected: tuple[str, ...]) -> None:
    assert parse_listen_addresses(value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("db.example", "has 'db.example', which is not an address to listen on: *"),
        ("127.0.0.1:9926", "has '127.0.0.1:9926', which is not an address"),
        ("10.0.0.0/8", "has '10.0.0.0/8', which is not an address"),
        ("127.1", "has '127.1', which is not an address"),
        ("", "has '', which is not an address"),
        ("127.0.0.1,", "has '', which is not an address"),
        ("[::1", r"has '\[::1', which is not an address"),
        ([], "must be an address, or a list of them"),
        ([None], "must be an address, or a list of them"),
        (9926, "must be an address, or a list of them"),
        (True, "must be an address, or a list of them"),
        ({"host": "*"}, "must be an address, or a list of them"),
        ([f"10.0.0.{number}" for number in range(65)], "must not have more than 64 entries"),
        (["127.0.0.1", "*"], r"has '\*' beside '127.0.0.1', which it includes"),
        (["0.0.0.0", "127.0.0.1"], r"has '0\.0\.0\.0' beside '127\.0\.0\.1'"),
        (["localhost", "::"], "has '::' beside 'localhost'"),
    ],
)
def test_what_is_not_an_address(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_listen_addresses(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], []),
        ("", []),
        (None, []),
        ("10.0.0.7", ["10.0.0.7/32"]),
        ("10.0.0.0/8, [fd00::1]", ["10.0.0.0/8", "fd00::1/128"]),
        (["::ffff:10.0.0.0/104", "10.0.0.0/8"], ["10.0.0.0/8"]),
        (["0.0.0.0/0"], ["0.0.0.0/0"]),
    ],
)
def test_networks(value: object, expected: list[str]) -> None:
    assert [str(network) for network in parse_networks(value)] == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nginx", "has 'nginx', which is not an address or network such as"),
        (["10.0.0.0/33"], "has '10.0.0.0/33', which is not"),
        (["10.0.0.7/8"], "has '10.0.0.7/8', which is an address in a network; write that as 10.0.0.0/8"),
        (["10.0.0.7"] * 1001, "must not have more than 1000 entries"),
        (["*"], r"has '\*', which is not"),
        ([7], "must be an address or network, or a list of them"),
        ({"a": 1}, "must be an address or network, or a list of them"),
        (True, "must be an address or network, or a list of them"),
    ],
)
def test_what_is_not_a_network(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_networks(value)
