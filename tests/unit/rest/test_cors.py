from svc.messages import HeaderBlock, Request
from svc.rest.cors import Cors


def preflight(cors: Cors, origin: str = "https://a.example") -> dict[str, str] | None:
    block = HeaderBlock([("origin", origin), ("access-control-request-method", "PUT")])
    response = cors.preflight(Request("OPTIONS", "/x", block))
    return None if response is None else dict(response.headers.pairs())


def test_preflight_reflects_a_listed_origin() -> None:
    cors = Cors.from_list(True, ["https://a.example"], "X-A", True)
    fields = preflight(cors)
    assert fields is not None
    assert fields["Access-Control-Allow-Origin"] == "https://a.example"
    assert fields["Access-Control-Allow-Headers"] == "X-A"
    assert fields["Access-Control-Max-Age"] == "600"
    assert preflight(cors, "https://b.example") is None


def test_an_empty_list_admits_everybody_and_the_switch_nobody() -> None:
    for access_list in (None, [None], ["*"], []):
        assert preflight(Cors.from_list(True, access_list, "", True)) is not None
    assert preflight(Cors.from_list(False, None, "", True)) is None


def test_plain_options_is_no_preflight() -> None:
    assert Cors().preflight(Request("OPTIONS", "/x", HeaderBlock([("origin", "https://a.example")]))) is None


def test_actual_answers_vary_by_origin() -> None:
    block = HeaderBlock([("origin", "https://a.example")])
    pairs = [("Vary", "Accept")]
    Cors().decorate(block, pairs)
    assert dict(pairs)["Vary"] == "Accept, Origin"
    assert dict(pairs)["Access-Control-Allow-Credentials"] == "true"
    assert "ETag" in dict(pairs)["Access-Control-Expose-Headers"]
    pairs = []
    Cors(credentials=False).decorate(block, pairs)
    assert "Access-Control-Allow-Credentials" not in dict(pairs)
    assert dict(pairs)["Vary"] == "Origin"
    pairs = []
    Cors().decorate(HeaderBlock([]), pairs)
    assert pairs == []
