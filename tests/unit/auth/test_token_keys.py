"""The key files that tokens are signed with (spec: security §2)."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from svc.auth.token_keys import NO_KEYS, PASS_FILE, PRIVATE_FILE, PUBLIC_FILE, RSA_BITS, TokenKeys, keys_directory
from svc.config import Config
from svc.errors import ServerError

BITS = 2048
FILES = (PRIVATE_FILE, PUBLIC_FILE, PASS_FILE)


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in FILES}


def test_files_of_a_new_pair(tmp_path: Path) -> None:
    keys = TokenKeys(tmp_path / "keys", bits=BITS)
    assert not keys.is_ready and not (tmp_path / "keys").exists()
    keys.prepare()
    assert keys.is_ready
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()} == dict.fromkeys(FILES, 0o600)
    found = contents(tmp_path / "keys")
    assert found[PRIVATE_FILE].startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert found[PUBLIC_FILE].startswith(b"-----BEGIN PUBLIC KEY-----")
    assert UUID(found[PASS_FILE].decode()).version == 4
    private = load_pem_private_key(found[PRIVATE_FILE], found[PASS_FILE])
    assert isinstance(private, RSAPrivateKey) and private.key_size == BITS
    assert private.public_key() == load_pem_public_key(found[PUBLIC_FILE]) == keys.public


def test_private_key_is_encrypted_with_aes_256_cbc(made_keys: Path) -> None:
    from base64 import b64decode

    lines = (made_keys / PRIVATE_FILE).read_text().splitlines()
    assert bytes.fromhex("060960864801650304012A") in b64decode("".join(lines[1:-1]))  # 2.16.840.1.101.3.4.1.42


def test_length_of_keys() -> None:
    assert RSA_BITS == 4096


def test_existing_files_are_kept(keys: TokenKeys, made_keys: Path, tmp_path: Path) -> None:
    assert contents(tmp_path / "keys") == contents(made_keys)
    again = TokenKeys(tmp_path / "keys", bits=BITS)
    again.prepare()
    assert again.public == keys.public and contents(tmp_path / "keys") == contents(made_keys)


@pytest.mark.parametrize("missing", FILES)
def test_all_are_made_anew_when_one_is_missing(missing: str, keys: TokenKeys, tmp_path: Path) -> None:
    before = contents(tmp_path / "keys")
    (tmp_path / "keys" / missing).unlink()
    TokenKeys(tmp_path / "keys", bits=BITS).prepare()
    after = contents(tmp_path / "keys")
    assert all(before[name] != after[name] for name in FILES)


def test_interrupted_making_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.auth import token_keys as module

    written = []

    def failing(file: Path, data: bytes) -> None:
        if file.name == PUBLIC_FILE:
            raise OSError(28, "No space left on device")
        written.append(file.name)
        file.write_bytes(data)

    keys = TokenKeys(tmp_path, bits=BITS)
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_private", failing)
        with pytest.raises(ServerError):
            keys.prepare()
    assert written and not (tmp_path / PUBLIC_FILE).exists()
    keys.prepare()
    assert keys.is_ready


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN PUBLIC KEY-----\n!!!\n-----END PUBLIC KEY-----\n"])
def test_unreadable_files(name: str, content: bytes, keys: TokenKeys, tmp_path: Path) -> None:
    """They are not written over: an operator may have spoiled one of a set that is in use elsewhere."""
    good = (tmp_path / "keys" / name).read_bytes()
    (tmp_path / "keys" / name).write_bytes(content)
    spoiled = TokenKeys(tmp_path / "keys", bits=BITS)
    with pytest.raises(ServerError) as caught:
        spoiled.prepare()
    assert (caught.value.message, caught.value.status_code) == (NO_KEYS, 500)
    assert (tmp_path / "keys" / name).read_bytes() == content and not spoiled.is_ready
    (tmp_path / "keys" / name).write_bytes(good)
    spoiled.prepare()
    assert spoiled.public == keys.public


def test_files_of_two_pairs_do_not_fit(keys: TokenKeys, tmp_path: Path) -> None:
    TokenKeys(tmp_path / "other", bits=BITS).prepare()
    (tmp_path / "keys" / PUBLIC_FILE).write_bytes((tmp_path / "other" / PUBLIC_FILE).read_bytes())
    with pytest.raises(ServerError):
        TokenKeys(tmp_path / "keys", bits=BITS).prepare()


def test_several_processes_make_one_pair(tmp_path: Path) -> None:
    """The lock is one of the file system, held by descriptor: objects stand for processes."""
    several = [TokenKeys(tmp_path, bits=BITS) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(TokenKeys.prepare, several))
    assert len({keys.public.public_numbers().n for keys in several}) == 1


def test_servers_over_the_same_databases_share_them(tmp_path: Path) -> None:
    alone = Config.from_document({}, tmp_path / "alone")
    assert keys_directory(alone) == tmp_path / "alone" / "keys"
    first, second = (
        Config.from_document({"storage": {"path": str(tmp_path / "databases")}}, tmp_path / name) for name in ("first", "second")
    )
    assert keys_directory(first) == keys_directory(second) == tmp_path / "databases" / ".keys"
    own = tmp_path / "second" / "keys"
    own.mkdir(parents=True)
    (own / ".jwtPublic.key").touch()
    assert (keys_directory(first), keys_directory(second)) == (tmp_path / "databases" / ".keys", own)
