"""The text of API keys (spec: rows §2.7)."""

from __future__ import annotations

import re

from svc.auth.api_key_format import hash_of, is_prefix, is_whole, new_key, prefix_of
from svc.logs.lines import json_entry, message_text, plain_text
from svc.logs.redact import redacted, without_credentials

SCANNER = re.compile(r"\bsvc_[0-9A-Za-z]{10}_[0-9A-Za-z]{33}\b")  # as docs/api-keys.md has it


def test_keys_are_whole_and_different() -> None:
    keys = {new_key() for _ in range(1000)}
    assert len(keys) == len({prefix_of(key) for key in keys}) == len({hash_of(key) for key in keys}) == 1000
    assert all(is_whole(key) and SCANNER.fullmatch(key) and is_prefix(prefix_of(key)) for key in keys)
    assert 62**27 > 2**160


def test_each_wrong_character_shows() -> None:
    key = new_key()
    for place in range(len(key)):
        other = "x" if key[place] != "x" else "y"
        assert not is_whole(key[:place] + other + key[place + 1 :]), place
        assert not is_whole(key[:place] + key[place + 1 :]), place
    swapped = [key[:n] + key[n + 1] + key[n] + key[n + 2 :] for n in range(len(key) - 1) if key[n] != key[n + 1]]
    assert not any(map(is_whole, swapped))
    assert not any(map(is_whole, ("", "svc_", f"{key}\n", f" {key}", key.upper(), "svc_" + "\u0665" * 10 + "_" + "a" * 33)))


def test_no_log_has_one() -> None:
    key = new_key()
    shown = f"{prefix_of(key)}_***"
    for text in (plain_text((key,)), message_text((f"a\n{key}",)), plain_text(({"sent": [key]},)), plain_text((ValueError(key),))):
        assert key not in text and shown in text
    assert key not in json_entry("", "http", 0, "info", (), plain_text((key,)))
    assert without_credentials(f"/Plant/{key}") == f"/Plant/{shown}" and key[:-1] not in plain_text((key[:-1],))
    assert redacted({"operation": "x", "name": key}) == {"operation": "x", "name": shown}
    assert plain_text(("svc_scheduler_history", "svc_dataloader_hash")) == "svc_scheduler_history svc_dataloader_hash"
