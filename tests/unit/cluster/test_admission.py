from __future__ import annotations

from typing import Any

import pytest

from svc.cluster.admission import NODES_ACCOUNT, admit, identify, inbox_of, read_request, refuse, rights_of, sent_by, sent_to
from svc.cluster.identity import NodeIdentity, Trust
from svc.cluster.signing import ACCOUNT, SERVER, USER, BadToken, SigningKey, read_claims
from tests.unit.cluster.test_identity import NOW, node, pem, trust

ENGINE, ISSUER = SigningKey(SERVER), SigningKey(ACCOUNT)
CLIENT = SigningKey(USER).public


def request(signer: SigningKey = ENGINE, **fields: Any) -> bytes:
    values = {
        "user_nkey": CLIENT,
        "server_id": {"id": ENGINE.public, "name": "a"},
        "client_info": {"host": "10.0.0.1", "id": 7},
        "connect_opts": {"user": "svc", "pass": "word"},
        "client_tls": {"verified_chains": [[pem(node("b"))]]},
        **fields,
    }
    return signer.sign_claims({"nats": values}, NOW).encode()


def test_a_known_node_gets_its_rights_until_its_certificate_ends() -> None:
    found = read_request(request(), ENGINE.public)
    identity = identify(found, trust("b"), NOW, plain=False)
    answer = read_claims(admit(found, identity, ISSUER, NOW))
    assert (answer["iss"], answer["sub"], answer["aud"]) == (ISSUER.public, CLIENT, ENGINE.public)
    user = read_claims(answer["nats"]["jwt"].encode())
    assert (user["iss"], user["sub"], user["aud"], user["name"]) == (ISSUER.public, CLIENT, NODES_ACCOUNT, "b")
    assert user["exp"] == int(node("b").not_valid_after_utc.timestamp())
    assert user["nats"]["pub"]["allow"] == list(rights_of("b").publish)
    assert user["nats"]["sub"]["allow"] == list(rights_of("b").subscribe)


def test_a_refusal_has_no_rights() -> None:
    found = read_request(request(), ENGINE.public)
    answer = read_claims(refuse(found, "refused", ISSUER, NOW))
    assert answer["nats"] == {"type": "authorization_response", "version": 2, "error": "refused"}


def test_rights_are_of_that_node_only_and_change_no_stream() -> None:
    rights = rights_of("b.c *>")
    own = [subject for subject in rights.publish if not subject.startswith("$JS.API.")]
    assert own == [sent_by("b.c *>", ">")] == ["svc.from.b_2ec_20_2a_3e.>"]
    assert rights.subscribe == (f"{inbox_of('b.c *>')}.>", sent_to("b.c *>", ">"), "svc.all.>")
    assert not [subject for subject in rights.publish if any(word in subject for word in ("DELETE", "PURGE", "UPDATE", "STREAM.CREATE"))]


def test_requests_of_anybody_else_are_not_answered() -> None:
    for data in (b"", b"{}", b'{"type":"io.nats"}', request(SigningKey(SERVER)), request(SigningKey(USER))):
        with pytest.raises(BadToken):
            read_request(data, ENGINE.public)


@pytest.mark.parametrize(
    "fields",
    [
        {"user_nkey": 5},
        {"user_nkey": None},
        {"server_id": {}},
        {"server_id": []},
        {"server_id": {"id": SigningKey(SERVER).public}},
        {"client_info": []},
        {"client_info": {"host": 5}},
        {"client_tls": {"verified_chains": 5}},
        {"client_tls": {"verified_chains": [5]}},
        {"client_tls": {"verified_chains": [[5]]}},
        {"client_tls": {"verified_chains": [["nonsense"]]}},
        {"client_tls": {"verified_chains": [["A" * 70_000]]}},
        {"client_tls": []},
    ],
)
def test_strange_requests(fields: dict[str, Any]) -> None:
    if fields == {"client_tls": []}:  # as none
        assert read_request(request(**fields), ENGINE.public).chains == ()
        return
    with pytest.raises(BadToken):
        read_request(request(**fields), ENGINE.public)


def test_a_plain_port_has_no_certificates() -> None:
    found = read_request(request(client_tls=None), ENGINE.public)
    assert found.chains == ()
    known = Trust("a", {"b": trust("b").nodes["b"].__class__("b", addresses=frozenset({"10.0.0.1"}))})
    assert identify(found, known, NOW, plain=True) == NodeIdentity("b")
    assert "exp" not in read_claims(read_claims(admit(found, NodeIdentity("b"), ISSUER, NOW))["nats"]["jwt"].encode())
