"""Where values came from, and which name a misspelt one means."""

import pytest

from svc.config.origins import Origins, nearest, nearest_setting


def test_the_nearest_place_around_a_name_is_found() -> None:
    origins = Origins(
        "f", {("http",): 1, ("http", "corsAccessList"): 2, ("http", "corsAccessList[1]"): 3, ("log_level",): 4}, {"mqtt.webSocket": "x"}
    )
    assert origins.of("http.corsAccessList") == "f line 2"
    assert origins.of("http.corsAccessList[1]") == "f line 3"
    assert origins.of("http.corsAccessList[7].deep") == "f line 2"
    assert origins.of("http.port") == "f line 1"
    assert origins.of("logging.level") == "f line 4"
    assert origins.of("mqtt.webSocket") == "x"
    assert origins.of("mqtt") == ""
    assert origins("http.port", "mqtt.webSocket", "tls") == " (f line 1, x)"
    assert Origins()("http.port") == ""


def test_what_set_a_value_beats_the_file() -> None:
    assert Origins("f", {("http", "port"): 1}, {"http.port": "option --HTTP_PORT"}).of("http.port") == "option --HTTP_PORT"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("http.prot", "http.port"),
        ("HTTP", "http"),
        ("loging", "logging"),
        ("http.cors_access_list", "http.corsAccessList"),
        ("operationsApi.netwrk", "operationsApi.network"),
        ("operationsApi.network.prot", "operationsApi.network.port"),
        ("http_port", "http.port"),
        ("webSocket", "mqtt.webSocket"),
        ("port", ""),
        ("x", ""),
        ("", ""),
        ("http.", ""),
        ("x" * 100_000, ""),
    ],
)
def test_the_setting_that_was_meant(name: str, meant: str) -> None:
    assert nearest_setting(name) == meant


def test_nothing_is_near_to_nothing() -> None:
    assert nearest("http", []) == ""
