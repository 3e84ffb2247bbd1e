"""The pages of the configuration (spec: console §13)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from svc.config import SETTINGS, load_config
from svc.config.document import read_document, write_document
from svc.config.reference import has_effect
from svc.config.settings import BY_NAME
from svc.console.settings import ShownSettings, control_of, sent_value, typed_text
from svc.errors import ClientError
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
READING = {"super_user": False, "operations": ["get_configuration"]}
MAIL = {"from": "a@b.example", "host": "smtp.example", "username": "u", "password": "hush"}


class ConfiguredSite(ConsoleSite):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = path / "svc-config.yaml"
        self.write({"rootPath": str(path), "http": {"port": 9926, "corsAccessList": ["https://a.example", HOSTILE]}, "mail": MAIL})

    def write(self, document: dict[str, Any], **environ: str) -> None:
        write_document(self.file, document)
        self.node.node.config = load_config(self.node.root, environ=environ)

    def value(self, name: str) -> Any:
        found: Any = read_document(self.file)
        for part in name.split("."):
            found = found[part]
        return found

    def set(self, name: str, value: str, **more: str) -> ConsoleAnswer:
        path = f"/console/configuration/{name}"
        opened = self.get(path)
        version = opened.page.find("input", name="version")["value"]
        return self.post(path, {"_value" if name == "mail.password" else "value": value, "version": version, **more})

    def row(self, name: str, query: str = "", user: Any = "admin") -> list[str]:
        return next(row for row in self.get(f"/console/configuration{query}", user).page.rows if row[0].removeprefix("● ") == name)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConfiguredSite]:
    made = ConfiguredSite(tmp_path)
    yield made
    made.close()


def test_every_setting_is_there_with_its_documentation(site: ConfiguredSite) -> None:
    answer = site.get("/console/configuration")
    assert answer.status == 200
    names = {row[0].removeprefix("● ") for row in answer.page.rows}
    assert {row.name for row in SETTINGS if has_effect(row)} == names - {"Setting"}
    assert "threads" not in names and "log_level" not in names
    assert site.row("http.port")[:3] == ["● http.port", "9926", "file"]
    assert "default 9926" in site.row("http.port")[3]
    assert site.row("logging.level")[:3] == ["logging.level", "warn", "default"]
    assert "takes effect without a restart" in site.row("logging.level")[3]
    assert b"<img src=x" not in answer.body and HOSTILE in answer.page.text


def test_search(site: ConfiguredSite) -> None:
    found = [row[0] for row in site.get("/console/configuration?q=CORSACCESS").page.rows if row[0] != "Setting"]
    assert {"● http.corsAccessList", "operationsApi.network.corsAccessList"} < set(found) and len(found) < 8
    assert [row[0] for row in site.get("/console/configuration?q=cors&set=true").page.rows if row[0] != "Setting"] == [
        "● http.corsAccessList"
    ]
    none = site.get("/console/configuration?q=%22%3E%3Cimg+src%3Dx%3E")
    assert "No setting has this" in none.page.text and none.page.find("input", name="q")["value"] == '"><img src=x>'


def test_what_the_start_has_set(site: ConfiguredSite) -> None:
    site.write({"http": {"port": 9926}}, HTTP_PORT="8080")
    assert site.row("http.port")[:3] == ["● http.port", "8080In the file: 9926", "environment, option or svc dev"]
    page = site.get("/console/configuration/http.port").page
    assert "not written into the file" in page.text and page.find("input", name="value")["value"] == "9926"
    assert "does not count as long as" in page.text


def test_what_waits_for_a_restart(site: ConfiguredSite) -> None:
    assert site.set("http.port", "8081").location.startswith("../configuration/http.port?note=Configuration+successfully+set")
    assert site.value("http.port") == 8081
    assert site.row("http.port")[1] == "9926After a restart: 8081"
    page = site.get("/console/configuration/http.port").page
    assert "A restart is needed" in page.text and "After a restart8081" in page.text
    site.set("logging.level", "debug")
    assert site.row("logging.level")[:3] == ["● logging.level", "debug", "file"]


def test_secrets_are_never_shown(site: ConfiguredSite) -> None:
    credentials = ShownSettings(*[{"replication": {"credentials": {"token": "hush"}}}] * 3).shown(BY_NAME["replication.credentials"])
    assert credentials.value == "***" and control_of(BY_NAME["replication.credentials"]) == "secret"
    assert site.row("mail.password")[1] == "***"
    for path in ("", "/mail.password"):
        assert b"hush" not in site.get(f"/console/configuration{path}").body
    empty = site.set("mail.password", "")
    assert empty.status == 400 and site.value("mail.password") == "hush"
    assert site.set("mail.password", "secret").status == 303 and site.value("mail.password") == "secret"


@pytest.mark.parametrize(
    ("name", "typed", "stored"),
    [
        ("http.cors", "false", False),
        ("http.timeout", "30s", "30s"),
        ("http.securePort", "", None),
        ("http.corsAccessList", "https://b.example\r\n\r\n https://c.example \r\n", ["https://b.example", "https://c.example"]),
        ("http.corsAccessList", '["*"]', ["*"]),
        ("http.corsAccessList", "", None),
        ("http.logging", '{"level": "info"}', {"level": "info"}),
        ("http.logging", "level: info\r\nrotation:\r\n  enabled: true\r\n", {"level": "info", "rotation": {"enabled": True}}),
        ("http.mtls", "true", True),
        ("logging.level", "error", "error"),
        ("node.hostname", "12", "12"),
        ("operationsApi.importRoots", "import\r\n/srv/more", ["import", "/srv/more"]),
    ],
)
def test_a_setting_is_changed_by_its_kind(site: ConfiguredSite, name: str, typed: str, stored: Any) -> None:
    answer = site.set(name, typed)
    assert answer.status == 303, answer.page.text
    assert site.value(name) == stored


@pytest.mark.parametrize(
    ("name", "typed", "text"),
    [
        ("http.port", "eighty", "'http.port' must be a port"),
        ("http.port", "70000", "'http.port' must be a port"),
        ("http.cors", "maybe", "'http.cors' must be a boolean"),
        ("http.timeout", HOSTILE, "'http.timeout' must be a duration"),
        ("http.logging", "{", "'http.logging' is neither JSON nor YAML"),
        ("http.logging", "level: loud", "'http.logging.level' must be one of"),
        ("http.logging", "&a [*a]", "nested too deeply"),
        ("http.logging", "a: 2026-01-01", "must be a JSON value"),
        ("http.logging", "x" * 70_000, "is longer than 65536 characters"),
        ("logging.level", "loud", "'logging.level' must be one of"),
        ("http.trustedProxies", "no network", "'http.trustedProxies'"),
    ],
)
def test_a_value_that_is_wrong_changes_nothing(site: ConfiguredSite, name: str, typed: str, text: str) -> None:
    before = site.file.read_bytes()
    answer = site.set(name, typed)
    assert answer.status == 400 and text in answer.page.text, answer.page.text
    control = next(each for tag, each in answer.page.elements if tag in ("input", "textarea", "select") and each.get("name") == "value")
    assert (control["aria-invalid"], control["aria-describedby"].split()[-1]) == ("true", "fault-value")
    if control_of(BY_NAME[name]) != "lines" and "value" in control:
        assert control["value"] == typed
    assert b"<img src=x" not in answer.body
    assert site.file.read_bytes() == before


def test_back_to_the_default(site: ConfiguredSite) -> None:
    site.set("http.cors", "false")
    assert site.set("http.cors", "false", do="reset").status == 303
    assert site.value("http.cors") is None and site.row("http.cors")[1].endswith("true") is True
    page = site.get("/console/configuration/http.corsAccessList").page
    assert "remove the line from the file" in page.text and not any(each.get("value") == "reset" for _, each in page.elements)


def test_settings_that_cannot_be_set_here(site: ConfiguredSite) -> None:
    site.write({"tls": [{"certificate": "a.pem", "privateKey": "b.pem"}]})
    for name, text in (
        ("rootPath", "chosen at the start"),
        ("databases.%3Cdb%3E.path", "one for each database"),
        ("tls.certificate", "is a list in the file"),
    ):
        page = site.get(f"/console/configuration/{name}").page
        assert text in page.text and not any(
            each.get("method") == "post" and "logout" not in each.get("action", "") for _, each in page.elements
        )
    for name in ("nosuch", "threads", "log_level", "replication.replicateTo", "http.port/x"):
        assert site.get(f"/console/configuration/{name}").status == 404


def test_former_names_and_sections_that_are_off(site: ConfiguredSite) -> None:
    site.write({"log_level": "debug", "mqtt": False})
    assert site.row("logging.level")[:3] == ["● logging.level", "debug", "file"]
    assert site.row("mqtt.webSocket")[1] == "false"


def test_a_setting_that_somebody_else_has_changed(site: ConfiguredSite) -> None:
    path = "/console/configuration/http.port"
    opened = site.get(path)
    version = opened.page.find("input", name="version")["value"]
    site.node.run("set_configuration", http_port=1234)
    answer = site.post(path, {"value": "8081", "version": version})
    assert answer.status == 409 and "changed by somebody else" in answer.page.text and "1234" in answer.page.text
    assert answer.page.find("input", name="value")["value"] == "8081" and site.value("http.port") == 1234
    again = site.post(path, {"value": "8081", "version": answer.page.find("input", name="version")["value"]})
    assert again.status == 303 and site.value("http.port") == 8081


def test_rights(site: ConfiguredSite) -> None:
    reader = site.node.user("reader", READING)
    assert site.row("http.port", "", reader)[1] == "9926"
    answer = site.get("/console/configuration/http.port", reader)
    assert "Only a super user can change it" in answer.page.text and not any(
        each.get("name") == "value" for _, each in answer.page.elements
    )
    token = answer.page.find("input", name="_token")["value"]
    before = site.file.read_bytes()
    assert site.post("/console/configuration/http.port", {"value": "1", "version": ""}, reader, token=token).status == 403
    assert site.post("/console/configuration/http.port", {"value": "1", "version": ""}, token=None).status == 403
    assert site.file.read_bytes() == before
    for permission in ({"super_user": False}, {"super_user": False, "structure_user": True}):
        assert site.get("/console/configuration", site.node.user("ann", permission)).status == 403
    assert site.get("/console/configuration", None).status == 401
    site.node.node.config = site.node.config  # one without a file
    assert site.set("http.port", "1").status == 501


def test_every_setting_has_a_form(site: ConfiguredSite) -> None:
    for row in SETTINGS:
        answer = site.get(f"/console/configuration/{quote(row.name)}")
        assert answer.status == (200 if has_effect(row) else 404), row.name


@pytest.mark.parametrize("value", [["a", "b"], [], ["a b", "[x"], [" a"], ["a\nb"], [None], "one"])
def test_lists_are_typed_in_as_they_are_shown(value: Any) -> None:
    row = BY_NAME["operationsApi.importRoots"]
    sent = sent_value(row, typed_text(row, value).replace("\n", "\r\n"))
    assert sent == (value if isinstance(value, list) else [value])


def test_yaml_that_repeats_itself_is_not_spread_out() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert isinstance(sent_value(BY_NAME["http.logging"], "\n".join(lines)), dict)
    with pytest.raises(ClientError):
        sent_value(BY_NAME["http.logging"], "[" * 30_000)
