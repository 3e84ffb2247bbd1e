"""Certificates of this node: what operators add, and what its own authority signs (spec: operations §11).

Records of `svc_certificate` hold the public halves; a private key that came with one is the file `<root>/keys/<name>.pem`. The certificates of the
`tls` section are files of the operator: they are listed, but neither added nor removed here.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

from svc.auth.writes import write
from svc.config.document import write_private
from svc.errors import ClientError, NotFound
from svc.operations.call import Call
from svc.operations.fields import Field, bad_request
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation
from svc.store import Table
from svc.store.system import CERTIFICATE_TABLE, SYSTEM
from svc.store.values.records import decode

NO_KEY = "A suitable key was not found for this certificate"
ALL_USES = ("https", "operations", "mqtt")
MAX_NAME = 200  # bytes: a file name, with what is added to it

_OWN_FILES = frozenset({"ca.pem", "caPrivateKey.pem", "certificate.pem", "privateKey.pem"})
_SHOWN = ("name", "certificate", "private_key_name", "is_authority", "details", "is_self_signed", "hosts", "uses", "ciphers")


def _file_name(value: Any, field: Field) -> str | None:
    if value.startswith(".") or "\\" in value or len(value) > MAX_NAME:
        return f"must be usable as the name of a file: no dot at its beginning, no backslash, at most {MAX_NAME} characters"
    return None


def _ciphers(value: Any, field: Field) -> str | None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(value)
    except (ssl.SSLError, ValueError, UnicodeError):
        return "must be ciphers in OpenSSL's notation"
    return None


def _table(call: Call) -> Table:
    return call.node.store.databases[SYSTEM].tables[CERTIFICATE_TABLE]


def _directory(call: Call) -> Path:
    return call.node.config.root / "keys"


def _stored(call: Call, name: str) -> dict[str, Any] | None:
    raw = _table(call).get_raw(name)
    return None if raw is None else decode(raw)


# --- handlers -----------------------------------------------------------------------------------------------------------------------------


async def add_certificate(call: Call) -> str:
    name = call["name"]
    own_files = _OWN_FILES | {file.name for pair in _configured(call) for file in pair}
    if f"{name}.pem" in own_files:
        raise bad_request(f"'name' is not allowed to be '{name}': the file {name}.pem belongs to the configuration")
    before = _stored(call, name)
    record = _table(call).validator.record(await call.on_helper(lambda: _read(call, before)))
    # The key first: a record whose key is missing would be offered to clients, a key without a record is not offered.
    if call["private_key"] is not None:
        await call.on_helper(lambda: write_private(_directory(call) / f"{name}.pem", call["private_key"].encode(errors="replace")))
    transaction = call.begin()
    transaction.put(_table(call), name, record)
    await write(transaction)
    if before is not None and not record["owns_key"]:
        await _remove_key(call, before)
    return f"Successfully added certificate: {name}"


def _read(call: Call, before: dict[str, Any] | None) -> dict[str, Any]:
    """The record for what was sent. Raises ClientError. Blocks."""
    from svc.tls.certificates import details_of, find_key, fits, is_self_signed, read_certificate, read_key

    name, directory = call["name"], _directory(call)
    certificate = read_certificate(call["certificate"].encode(errors="replace"), "'certificate'")
    details = details_of(certificate)
    key_file = f"{name}.pem"
    owns_key = before is not None and before.get("owns_key") is True
    if call["private_key"] is not None:
        if not fits(certificate, read_key(call["private_key"].encode(errors="replace"), "'private_key'")):
            raise bad_request("'private_key' does not belong to 'certificate'")
        if (directory / key_file).exists() and not owns_key:
            raise bad_request(f"'name' is not allowed to be '{name}': there is a file {key_file} of another origin")
        key_name: str | None = key_file
        owns_key = True
    else:
        key_name = find_key(directory, certificate, (key_file,))
        if key_name is None and not call["is_authority"]:
            raise ClientError(NO_KEY, code="VALIDATION")
        owns_key = owns_key and key_name == key_file
    record = {
        "name": name,
        "certificate": call["certificate"],
        "private_key_name": key_name,
        "is_authority": call["is_authority"],
        "is_self_signed": is_self_signed(certificate),
        "details": details,
        "uses": (["ca"] if call["is_authority"] else list(ALL_USES)) if call["uses"] is None else call["uses"],
        "owns_key": owns_key,
    }
    for optional in ("hosts", "ciphers"):
        if call[optional] is not None:
            record[optional] = call[optional]
    return record


async def remove_certificate(call: Call) -> str:
    name = call["name"]
    record = _stored(call, name)
    if record is None:
        raise NotFound(f"{name} not found")
    transaction = call.begin()
    transaction.delete(_table(call), name)
    await write(transaction)
    await _remove_key(call, record)  # only now: a removal that failed leaves a certificate that works
    return f"Successfully removed {name}"


async def _remove_key(call: Call, record: dict[str, Any]) -> None:
    """Remove the key that came with a certificate that is gone, unless another certificate has it too."""
    key_file = f"{record['name']}.pem"
    shared = any(other["name"] != record["name"] and other.get("private_key_name") == key_file for other in _records(call))
    if record.get("owns_key") is True and not shared:

        def remove() -> None:
            with suppress(OSError):
                (_directory(call) / key_file).unlink(missing_ok=True)

        await call.on_helper(remove)


async def list_certificates(call: Call) -> Any:
    found = [{key: record[key] for key in _SHOWN if key in record} for record in _records(call)]
    return await call.on_helper(lambda: _files(call)) + found


def _records(call: Call) -> list[dict[str, Any]]:
    table = _table(call)
    return [decode(raw) for _, raw in table.scan(table.database.snapshot())]


def _configured(call: Call) -> list[tuple[Path, ...]]:
    """Of each `tls` entry: certificate, key, authority."""
    config = call.node.config
    entries = (*config.tls_entries, *config.operations_tls_entries)
    return list(dict.fromkeys((entry.certificate, entry.private_key, entry.certificate_authority) for entry in entries))


def _files(call: Call) -> list[dict[str, Any]]:
    """The certificates of the configuration, those of them that can be read. Blocks."""
    from svc.tls.certificates import details_of, find_key, is_self_signed, read_certificate, to_pem

    found: dict[Path, dict[str, Any]] = {}
    for server, key, authority in _configured(call):
        for file, is_authority in ((server, False), (authority, True)):
            if file in found:
                continue
            try:
                certificate = read_certificate(file.read_bytes(), file.name)
                details = details_of(certificate)
            except (OSError, ClientError):
                continue
            found[file] = {
                "name": file.name,
                "certificate": to_pem(certificate).decode(),
                "private_key_name": find_key(file.parent, certificate) if is_authority else key.name,
                "is_authority": is_authority,
                "details": details,
                "is_self_signed": is_self_signed(certificate),
                "uses": ["ca"] if is_authority else list(ALL_USES),
                "is_configured": True,
            }
    return list(found.values())


async def create_csr(call: Call) -> Any:
    return {"csr": await call.on_helper(lambda: _make_csr(call))}


def _make_csr(call: Call) -> str:
    from svc.tls.certificates import make_request, read_key

    file: Path = call.node.config.tls_entries[0].private_key
    try:
        data = file.read_bytes()
    except OSError:
        raise NotFound(f"The private key of this node, {file.name}, cannot be read") from None
    return make_request(read_key(data, file.name), call.node.name)


async def sign_certificate(call: Call) -> Any:
    return await call.on_helper(lambda: _sign(call))


def _sign(call: Call) -> dict[str, str]:
    from svc.tls.certificates import read_authority, sign_request, to_pem

    authority = read_authority(_directory(call))
    if authority is None:
        raise NotFound("This node has no certificate authority that could sign")
    certificate = sign_request(call["csr"], authority, call.node.clock)
    return {"certificate": to_pem(certificate).decode(), "signingCA": to_pem(authority[0]).decode()}


_PEM = "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"
_NAME = Field("name", "name", "Name of the certificate.", required=True)

OPERATIONS = (
    Operation(
        name="add_certificate",
        category="certificates",
        summary="Add a certificate, or replace the one of that name.",
        permission=NEVER_GRANTED,  # of an authority: it could issue client certificates in every name
        handler=add_certificate,
        fields=(
            _NAME.but(check=_file_name),
            Field("certificate", "string", "The certificate, then those between it and its authority, PEM.", required=True),
            Field("is_authority", "bool", "Whether it is an authority that certificates are checked against.", required=True),
            Field(
                "private_key", "string", "Its private key, PEM, without pass phrase; default: a key on this node that fits.", secret=True
            ),
            Field("hosts", "strings", "Host names it is for; default: those in the certificate."),
            Field(
                "uses", "strings", "What it is for: `https`, `operations`, `mqtt`, `ca`; default: all servers, or `ca` for an authority."
            ),
            Field("ciphers", "string", "Ciphers in OpenSSL's notation.", check=_ciphers),
        ),
        returns="Message.",
        notes="The private key is kept in the file `keys/<name>.pem`, which only the server's user may read, and never in a table.",
        example={"name": "shop.example", "certificate": _PEM, "is_authority": False, "private_key": "-----BEGIN PRIVATE KEY-----\n..."},
        example_answer={"message": "Successfully added certificate: shop.example"},
    ),
    Operation(
        name="remove_certificate",
        category="certificates",
        summary="Remove a certificate, and the key that was added with it.",
        permission=SUPER_USER,
        handler=remove_certificate,
        fields=(_NAME,),
        returns="Message.",
        example={"name": "shop.example"},
        example_answer={"message": "Successfully removed shop.example"},
    ),
    Operation(
        name="list_certificates",
        category="certificates",
        summary="List the certificates of this node.",
        permission=SUPER_USER,
        handler=list_certificates,
        returns=(
            "Array of `{name, certificate, private_key_name, is_authority, details, is_self_signed, hosts?, uses, ciphers?, is_configured?}`; `details` has "
            "`issuer`, `subject`, `subject_alt_name?`, `serial_number`, `valid_from`, `valid_to`."
        ),
        notes="The files of the `tls` section come first, named after their files, with `is_configured`, then what was added, by name.",
        example={},
        example_answer=[
            {
                "name": "certificate.pem",
                "certificate": _PEM,
                "private_key_name": "privateKey.pem",
                "is_authority": False,
                "details": {
                    "issuer": "CN=svc-Certificate-Authority-0f3a6cbb2d11",
                    "subject": "CN=localhost",
                    "serial_number": "2B6D1F0E7C3A",
                    "valid_from": "Jan 01 00:00:00 2026 GMT",
                    "valid_to": "Jan 01 01:00:00 2036 GMT",
                    "subject_alt_name": "DNS:localhost, IP Address:127.0.0.1, IP Address:::1",
                },
                "is_self_signed": False,
                "uses": ["https", "operations", "mqtt"],
                "is_configured": True,
            }
        ],
    ),
    Operation(
        name="create_csr",
        category="certificates",
        summary="Create a signing request for this node's key and name.",
        permission=SUPER_USER,
        handler=create_csr,
        returns="Object with `csr`, PEM.",
        example={},
        example_answer={"csr": "-----BEGIN CERTIFICATE REQUEST-----\n...\n-----END CERTIFICATE REQUEST-----\n"},
    ),
    Operation(
        name="sign_certificate",
        category="certificates",
        summary="Sign a request with this node's certificate authority.",
        permission=NEVER_GRANTED,  # a client certificate in the name of a super user
        handler=sign_certificate,
        fields=(Field("csr", "string", "The signing request, PEM.", required=True),),
        returns="Object with `certificate` and `signingCA`, PEM.",
        notes="The certificate has the subject and the alternative names of the request, is for servers and clients, and lasts ten years.",
        example={"csr": "-----BEGIN CERTIFICATE REQUEST-----\n...\n-----END CERTIFICATE REQUEST-----\n"},
        example_answer={"certificate": _PEM, "signingCA": _PEM},
    ),
)
