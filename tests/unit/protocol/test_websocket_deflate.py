"""What is agreed upon about compression. How messages are compressed and inflated is in test_websocket.py."""

from __future__ import annotations

import pytest

from svc.protocol.websocket_deflate import DeflateOptions, negotiate

NO = "server_no_context_takeover; client_no_context_takeover"


@pytest.mark.parametrize(
    ("offers", "answer"),
    [
        ("permessage-deflate", f"{NO}; server_max_window_bits=12"),
        ("Permessage-Deflate", f"{NO}; server_max_window_bits=12"),
        ("permessage-deflate; client_max_window_bits", f"{NO}; server_max_window_bits=12; client_max_window_bits=12"),
        ("permessage-deflate; client_max_window_bits=15", f"{NO}; server_max_window_bits=12; client_max_window_bits=12"),
        ("permessage-deflate; client_max_window_bits=8", f"{NO}; server_max_window_bits=12; client_max_window_bits=8"),
        ("permessage-deflate; server_max_window_bits=9", f"{NO}; server_max_window_bits=9"),
        ("permessage-deflate; server_max_window_bits=15", f"{NO}; server_max_window_bits=12"),
        ('permessage-deflate; server_max_window_bits="10"', f"{NO}; server_max_window_bits=10"),
        ("permessage-deflate;client_no_context_takeover;server_no_context_takeover", f"{NO}; server_max_window_bits=12"),
        ("x-other; a=1, permessage-deflate", f"{NO}; server_max_window_bits=12"),
        ('x-other; a="1, 2; \\"3", permessage-deflate', f"{NO}; server_max_window_bits=12"),
        ("permessage-deflate; server_max_window_bits=8, permessage-deflate", f"{NO}; server_max_window_bits=12"),
        ("permessage-deflate, permessage-deflate; server_max_window_bits=10", f"{NO}; server_max_window_bits=12"),
        ("permessage-deflate, (", f"{NO}; server_max_window_bits=12"),
    ],
)
def test_offers_that_are_met(offers: str, answer: str) -> None:
    agreement = negotiate(offers, DeflateOptions())
    assert agreement is not None
    assert agreement.answer == f"permessage-deflate; {answer}"
    assert not agreement.context_takeover
    assert f"server_max_window_bits={agreement.server_bits}" in agreement.answer
    if "client_max_window_bits=" in agreement.answer:
        assert f"client_max_window_bits={agreement.client_bits}" in agreement.answer
    else:
        assert agreement.client_bits == 15  # it may use all there is


@pytest.mark.parametrize(
    "offers",
    [
        "",
        ",",
        "x-other",
        "permessage-deflate-not",
        "permessage-deflate; server_max_window_bits=8",  # zlib cannot
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=x",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=",
        "permessage-deflate; client_no_context_takeover=1",
        "permessage-deflate; server_no_context_takeover=true",
        "permessage-deflate; unknown",
        "permessage-deflate; client_max_window_bits; client_max_window_bits",
        "permessage-deflate; server_max_window_bits=10; server_max_window_bits=11",
        "permessage-deflate; (",
        "permessage-deflate=1",
    ],
)
def test_offers_that_are_not_met(offers: str) -> None:
    assert negotiate(offers, DeflateOptions()) is None


def test_what_the_server_is_ready_for() -> None:
    agreement = negotiate("permessage-deflate; client_max_window_bits", DeflateOptions(window_bits=15, context_takeover=True))
    assert agreement is not None and agreement.context_takeover
    assert agreement.answer == "permessage-deflate; client_no_context_takeover; client_max_window_bits=15"
    declined = negotiate("permessage-deflate; server_no_context_takeover", DeflateOptions(context_takeover=True))
    assert declined is not None and not declined.context_takeover and "server_no_context_takeover" in declined.answer
    for bits in (8, 16):
        with pytest.raises(ValueError, match="window_bits"):
            DeflateOptions(window_bits=bits)
