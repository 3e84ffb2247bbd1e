from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import pytest

from svc.messages import HeaderBlock, Request
from svc.pages.frame import ASSETS, frame_of, root_of


@pytest.mark.parametrize("path", ["/", "/Product", "/Product/", "/Product/a/b", "/a%2Fb/c", "/a:b"])
def test_the_root_is_found_from_every_path(path: str) -> None:
    assert urljoin(f"http://x/below{path}", root_of(path)) == "http://x/below/"


def request(target: str, user: Any = None) -> Request:
    made = Request("GET", target, HeaderBlock([("host", "x:9926")]))
    made.user = user
    return made


def test_a_login_leads_back() -> None:
    frame = frame_of(request("/Product/?name==a&b=%20"), has_login=True)
    assert frame.login == "../login?redirect=%2FProduct%2F%3Fname%3D%3Da%26b%3D%2520" and (frame.user, frame.logout) == ("", "")
    assert frame_of(request("/"), has_login=True).login == "./login"
    assert frame_of(request("/logout"), has_login=True).login == "./login"
    assert frame_of(request("/login"), has_login=True).login == ""
    assert frame_of(request("/" + "x" * 5000), has_login=True).login == "./login"
    assert frame_of(request("/Product/"), has_login=False).login == ""


def test_the_prefix_of_a_proxy_is_part_of_the_address() -> None:
    made = request("/Product/?a")
    made.prefix = "/svc"
    frame = frame_of(made, has_login=True)
    assert (frame.address, frame.login) == ("http://x:9926/svc/Product/?a", "../login?redirect=%2Fsvc%2FProduct%2F%3Fa")


def test_the_address_is_shown_as_it_is() -> None:
    assert frame_of(request("/a?<b>"), has_login=False).address == "http://x:9926/a?<b>"
    assert len(frame_of(request("/" + "x" * 100_000), has_login=False).address) < 1000


def test_addresses_of_files_name_their_content() -> None:
    assert all(file.tag[:12] in path for path, file in ASSETS.items()) and len(ASSETS) >= 3
    style = next(file.body.decode() for path, file in ASSETS.items() if path.endswith(".css"))
    assert "url(" not in style and "@import" not in style
