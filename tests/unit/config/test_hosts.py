"""Hosts of the configuration: how they are written, what they match, which addresses are public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from svc.config.hosts import is_public, parse_host_pattern, parse_hosts


@pytest.mark.parametrize(
    ("pattern", "name", "port", "matches"),
    [
        ("files.example.com", "files.example.com", 443, True),
        ("Files.Example.com.", "files.example.com", 80, True),
        ("files.example.com", "x.files.example.com", 80, False),
        ("files.example.com:8443", "files.example.com", 8443, True),
        ("files.example.com:8443", "files.example.com", 443, False),
        ("*.example.com", "files.example.com", 80, True),
        ("*.example.com", "a.b.example.com", 80, True),
        ("*.example.com", "example.com", 80, False),
        ("*.example.com", "badexample.com", 80, False),
        ("*", "files.example.com", 80, False),
        ("10.0.0.0/8", "10.0.0.1", 80, False),
        ("localhost", "localhost", 80, True),
    ],
)
def test_names(pattern: str, name: str, port: int, matches: bool) -> None:
    assert parse_host_pattern(pattern).matches_name(name, port) is matches


@pytest.mark.parametrize(
    ("pattern", "address", "port", "matches"),
    [
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.0.0.1", 80, False),
        ("10.0.0.7", "10.0.0.7", 80, True),
        ("10.0.0.7:8080", "10.0.0.7", 80, False),
        ("10.0.0.7:8080", "10.0.0.7", 8080, True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", 80, True),
        ("::ffff:10.0.0.1", "10.0.0.1", 80, True),
        ("::1", "::1", 80, True),
        ("[::1]:8080", "::1", 8080, True),
        ("[::1]:8080", "::1", 80, False),
        ("fd00::/8", "fd12::1", 80, True),
        ("fd00::/8", "10.0.0.1", 80, False),
        ("*", "198.41.0.4", 80, True),
        ("*", "127.0.0.1", 80, False),
        ("*:443", "198.41.0.4", 80, False),
        ("files.example.com", "198.41.0.4", 80, False),
    ],
)
def test_addresses(pattern: str, address: str, port: int, matches: bool) -> None:
    assert parse_host_pattern(pattern).matches_address(ip_address(address), port) is matches


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "http://a", "a/b", "a:", "a:0", "a:65536", "a:1e3", "*a", "*.", "*.*", "a..b", "10.0.0.1/8", "[::1", "[::1]x", "[a]",
     "-a", "a,b", "\u2603"],
)  # fmt: skip
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError):
        parse_host_pattern(text)
    with pytest.raises(ValueError, match="is not a host: a name, "):
        parse_hosts(["fine", text])


@pytest.mark.parametrize("value", [None, 5, ["a"], {}])
def test_what_is_no_text(value: object) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        parse_hosts([value])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::", "2001::1", "2001:db8::1", "fe80::1", "fec0::1", "fc00::1",
        "fd00:ec2::254", "ff02::1", "100::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["198.41.0.4", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ip_address(address))
