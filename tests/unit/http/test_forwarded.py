"""Who the client is, as proxies describe it (RFC 7239 and its predecessors)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.errors import ClientError
from svc.http.forwarded import MAX_HOPS, ForwardedAddress, node_address, read_forwarded


def is_trusted(address: str) -> bool:
    return address.startswith("10.")


def read(**fields: str) -> ForwardedAddress:
    return read_forwarded({name.replace("_", "-"): value for name, value in fields.items()}, is_trusted)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ForwardedAddress()),
        ({"x_forwarded_for": "192.0.2.7"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": "1.1.1.1, 192.0.2.7"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": "1.1.1.1, 192.0.2.7, 10.0.0.2, 10.0.0.3"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": "10.0.0.9, 10.0.0.2"}, ForwardedAddress("10.0.0.9")),
        ({"x_forwarded_for": "192.0.2.7:1234"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": "[2001:DB8::7]:443"}, ForwardedAddress("2001:db8::7")),
        ({"x_forwarded_for": "2001:db8::7"}, ForwardedAddress("2001:db8::7")),
        ({"x_forwarded_for": "::ffff:192.0.2.7"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": " , ,192.0.2.7,,"}, ForwardedAddress("192.0.2.7")),
        ({"x_forwarded_for": "192.0.2.7, unknown"}, ForwardedAddress()),
        ({"x_forwarded_for": "192.0.2.7, unknown, 10.0.0.2"}, ForwardedAddress("10.0.0.2")),
        ({"x_forwarded_for": "unix:"}, ForwardedAddress()),
        ({"x_forwarded_for": ""}, ForwardedAddress()),
        ({"x_forwarded_proto": "https"}, ForwardedAddress(scheme="https")),
        ({"x_forwarded_proto": "WSS"}, ForwardedAddress(scheme="https")),
        ({"x_forwarded_host": "shop.example:8443"}, ForwardedAddress(host="shop.example:8443")),
        ({"x_forwarded_host": "[2001:db8::7]:80"}, ForwardedAddress(host="[2001:db8::7]:80")),
        ({"x_forwarded_for": "9.9.9.9, 192.0.2.7, 10.0.0.2", "x_forwarded_proto": "http, https, http"}, ForwardedAddress("192.0.2.7", "https")),
        ({"x_forwarded_for": "192.0.2.7, 10.0.0.2", "x_forwarded_proto": "http, x, https"}, ForwardedAddress("192.0.2.7", "https")),
        ({"x_forwarded_for": "192.0.2.7, 10.0.0.2", "x_forwarded_host": "a.example, b"}, ForwardedAddress("192.0.2.7", None, "a.example")),
        ({"forwarded": "for=192.0.2.7;proto=https;host=shop.example"}, ForwardedAddress("192.0.2.7", "https", "shop.example")),
        ({"forwarded": 'For="[2001:db8::7]:80" ; Proto=HTTPS;by=10.0.0.1'}, ForwardedAddress("2001:db8::7", "https")),
        ({"forwarded": "for=[2001:db8::7]"}, ForwardedAddress("2001:db8::7")),
        ({"forwarded": r'for="192.0.2\.7"'}, ForwardedAddress("192.0.2.7")),
        ({"forwarded": 'for=1.1.1.1;host=evil.example, for=192.0.2.7;host="a.example"'}, ForwardedAddress("192.0.2.7", None, "a.example")),
        ({"forwarded": "for=192.0.2.7;proto=https, for=10.0.0.2;proto=http"}, ForwardedAddress("192.0.2.7", "https")),
        ({"forwarded": "for=1.1.1.1, for=_hidden;proto=https"}, ForwardedAddress(None, "https")),
        ({"forwarded": "proto=https"}, ForwardedAddress(None, "https")),
        ({"forwarded": " ,; , "}, ForwardedAddress()),
        ({"x_forwarded_prefix": "/svc"}, ForwardedAddress(prefix="/svc")),
        ({"x_forwarded_prefix": "/a/b.c/"}, ForwardedAddress(prefix="/a/b.c")),
        ({"x_forwarded_prefix": "//evil.example, /svc"}, ForwardedAddress(prefix="/svc")),
        ({"x_forwarded_prefix": "/"}, ForwardedAddress()),
        ({"x_forwarded_prefix": ""}, ForwardedAddress()),
        ({"forwarded": "for=192.0.2.7", "x_forwarded_prefix": "/svc"}, ForwardedAddress("192.0.2.7", prefix="/svc")),
        ({"x_forwarded_for": "192.0.2.7", "x_forwarded_prefix": "/svc"}, ForwardedAddress("192.0.2.7", prefix="/svc")),
        ({"forwarded": "for=192.0.2.7;proto=https", "x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https"}, ForwardedAddress("192.0.2.7", "https")),
    ],
)  # fmt: skip
def test_fields_of_proxies(fields: dict[str, str], expected: ForwardedAddress) -> None:
    assert read(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"x_forwarded_proto": "gopher"}, "X-Forwarded-Proto of a proxy is malformed"),
        ({"x_forwarded_proto": "https;x"}, "X-Forwarded-Proto"),
        ({"x_forwarded_host": "a b"}, "X-Forwarded-Host"),
        ({"x_forwarded_host": "ann@shop.example"}, "X-Forwarded-Host"),
        ({"x_forwarded_host": "shop.example/x"}, "X-Forwarded-Host"),
        *(
            ({"x_forwarded_prefix": prefix}, "X-Forwarded-Prefix of a proxy is malformed")
            for prefix in (
                "svc",
                "//evil.example",
                "/\\evil.example",
                "/a//b",
                "/..",
                "/a/../b",
                "/.",
                "/%2e%2e",
                "/a?b",
                "/a b",
                "/" + "a" * 200,
            )
        ),
        ({"forwarded": "for"}, "Forwarded of a proxy"),
        ({"forwarded": 'for="192.0.2.7'}, "Forwarded of a proxy"),
        ({"forwarded": 'for="1.1.1.1"for=192.0.2.7'}, "Forwarded of a proxy"),
        ({"forwarded": "for=1.1.1.1 for=192.0.2.7"}, "Forwarded of a proxy"),
        ({"forwarded": "for=1.1.1.1;for=192.0.2.7"}, "Forwarded of a proxy"),
        ({"forwarded": "for=192.0.2.7;proto=gopher"}, "Forwarded of a proxy"),
        ({"forwarded": 'for=192.0.2.7;host=""'}, "Forwarded of a proxy"),
        ({"forwarded": "for=1.1.1.1", "x_forwarded_for": "192.0.2.7"}, "disagree"),
        ({"forwarded": "host=evil.example", "x_forwarded_for": "192.0.2.7"}, "disagree"),
        ({"forwarded": "for=192.0.2.7", "x_forwarded_host": "evil.example"}, "disagree"),
    ],
)
def test_what_a_proxy_cannot_have_meant_is_refused(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        read(**fields)


@pytest.mark.parametrize("text", ["", "unknown", "_x", "1.2.3", "[::1", "[::1]x", "1.2.3.4:5:6", "localhost", "0x7f.1", "[]", "::1]"])
def test_what_is_not_an_address(text: str) -> None:
    assert node_address(text) is None


def test_only_so_many_proxies_are_looked_at() -> None:
    far = ", ".join(["192.0.2.7", *(f"10.0.0.{number}" for number in range(MAX_HOPS))])
    assert read(x_forwarded_for=far) == ForwardedAddress("10.0.0.0")


_CLAIM = st.text("for=host;prot,\"\\ []:.0127_x\t", max_size=40)  # fmt: skip


@given(_CLAIM)
@example("127.0.0.1")
@example('"')
def test_what_a_client_sends_itself_does_not_count(claim: str) -> None:
    """A proxy adds its part behind that of the client."""
    assert read(x_forwarded_for=f"{claim}, 192.0.2.7", x_forwarded_proto="https") == ForwardedAddress("192.0.2.7", "https")
    for added in ("for=192.0.2.7;proto=https", 'for="192.0.2.7";proto="https"', 'proto=https;for="192.0.2.7:80"'):
        try:
            found = read(forwarded=f"{claim}, {added}")
        except ClientError:
            continue
        assert found == ForwardedAddress("192.0.2.7", "https")
