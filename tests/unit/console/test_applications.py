"""The pages of applications: files, versions, deploying (spec: console §12)."""

from __future__ import annotations

import asyncio
import base64
import html
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from svc.apps.status import EntryStatus
from svc.deploying import deployment
from svc.deploying.trying import TrialResult
from svc.pages.sent_form import SentForm
from tests.support.archives import tar_of
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
TEXT = "/console/applications/shop?file=notes.txt"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleSite]:
    """Without the processes that load a version first, of which other tests have enough."""
    monkeypatch.setattr(deployment, "try_load", lambda *arguments: TrialResult())
    shop = tmp_path / "components" / "shop"
    (shop / "web" / "sub dir").mkdir(parents=True)
    (shop / "config.yaml").write_text("rest: true\n")
    (shop / "notes.txt").write_text("one\ntwo\n")
    (shop / "web" / "sub dir" / "grün & blau.txt").write_text("ü")
    made = ConsoleSite(tmp_path)
    yield made
    made.close()


def shop(site: ConsoleSite) -> Path:
    return site.node.root / "components" / "shop"


def field(answer: ConsoleAnswer, name: str) -> str:
    return answer.page.find("input", name=name)["value"]


def text_of(answer: ConsoleAnswer) -> str:
    """What is in the text area of the page, as a browser has it."""
    body = answer.body.decode()
    start = body.index("<textarea")
    inner = body[body.index(">", start) + 1 : body.index("</textarea>", start)]
    return html.unescape(inner.removeprefix("\n"))


def upload(site: ConsoleSite, path: str, fields: dict[str, str], files: dict[str, tuple[str, bytes]]) -> ConsoleAnswer:
    fields = {**fields, "_token": field(site.get(path), "_token")}
    parts = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    for name, (file, content) in files.items():
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: application/gzip\r\n\r\n'
        parts += [head.encode(), content, b"\r\n"]
    body = b"".join([*parts, b"--x--\r\n"])
    return site._ask("POST", path, "admin", body, {"content-type": "multipart/form-data; boundary=x"})


def settle(site: ConsoleSite) -> None:
    """Wait for the deployments that go on."""

    async def wait() -> None:
        while running := [run.task for run in site.node.node.deployments.running.values() if run.task is not None]:
            await asyncio.wait(running)
            await asyncio.sleep(0)

    site.node.wait(wait)


def tree(site: ConsoleSite) -> dict[str, bytes]:
    root = shop(site)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# --- what there is -----------------------------------------------------------------------------------------------------------------------


def test_the_list_and_the_page_of_one(site: ConsoleSite) -> None:
    answer = site.get("/console/applications")
    assert answer.page.rows[1] == ["shop", "unknown", "", "The component has not been loaded"]
    assert "None yet" in answer.page.text
    page = site.get("/console/applications/shop").page
    assert [row[0] for row in page.rows] == ["Name", "web/", "config.yaml", "notes.txt"]
    assert page.links["config.yaml"] == "../applications/shop?file=config.yaml"
    inner = site.get("/console/applications/shop?dir=web/sub%20dir").page
    assert inner.links["grün & blau.txt"] == "../applications/shop?file=web%2Fsub+dir%2Fgr%C3%BCn+%26+blau.txt"
    assert inner.links["web"] == "../applications/shop?dir=web"
    assert "ü" in text_of(site.get("/console/applications/shop?file=web%2Fsub+dir%2Fgr%C3%BCn+%26+blau.txt"))
    assert site.get("/console/applications/nosuch").status == 404
    assert site.get("/console/applications/shop?dir=web/nosuch").status == 404
    assert site.get("/console/applications/shop/nosuch").status == 404
    assert site.post("/console/applications", {}).status == 405


def test_faults_and_their_tracebacks(site: ConsoleSite) -> None:
    class Faulty:
        name, directory, definitions, restart_wanted, status = "shop", shop(site), (), (), "error"
        entries = {"resources": EntryStatus()}  # noqa: RUF012

    Faulty.entries["resources"].fail(f"resources.py:1: {HOSTILE}", f'File "resources.py", line 1\n{HOSTILE}')
    site.node.node.apps = [Faulty()]  # type: ignore[list-item]
    answer = site.get("/console/applications/shop")
    assert f"resources: resources.py:1: {HOSTILE}" in answer.page.text and 'File "resources.py", line 1' in answer.page.text
    assert answer.page.find("details") == {}
    assert b"<img src=x" not in answer.body
    assert site.get("/console/applications").page.rows[1][1] == "error"
    Faulty.name, Faulty.directory = "elsewhere", Path(f"/srv/{HOSTILE}")
    given = site.get("/console/applications")
    assert given.page.rows[3] == ["elsewhere", f"/srv/{HOSTILE}", f"resources.py:1: {HOSTILE}"] and b"<img src=x" not in given.body


def test_a_restart_that_is_needed(site: ConsoleSite) -> None:
    site.node.node.status.component_changed("shop")
    for path in ("/console/applications", "/console/applications/shop", TEXT):
        page = site.get(path).page
        assert "A restart is needed" in page.text and page.links["restart on the page of the instances"].endswith("/instances")


# --- files -------------------------------------------------------------------------------------------------------------------------------


def test_a_file_is_edited(site: ConsoleSite) -> None:
    opened = site.get(TEXT)
    assert text_of(opened) == "one\ntwo\n" and "lines end with LF" in opened.page.text
    answer = site.post(TEXT, {"text": "one\r\nthree €\r\n", "version": field(opened, "version")})
    assert answer.status == 303 and answer.location.startswith("../applications/shop?file=notes.txt&note=Successfully")
    assert (shop(site) / "notes.txt").read_bytes() == "one\nthree €\n".encode()
    same = site.post(TEXT, {"text": "one\r\nthree €\r\n", "version": field(site.get(TEXT), "version")})
    assert "Nothing+was+changed" in same.location


@pytest.mark.parametrize("content", [b"a\r\n\r\nb\r\n", b"\na\n", b"", b"a", "\ufeffx\r\ny".encode(), b"a\n\n\n"])
def test_a_file_that_is_not_changed_stays_as_it_is(site: ConsoleSite, content: bytes) -> None:
    file = shop(site) / "notes.txt"
    file.write_bytes(content)
    opened = site.get(TEXT)
    sent = text_of(opened).replace("\n", "\r\n")  # as browsers send it
    site.post(TEXT, {"text": sent, "version": field(opened, "version")})
    assert file.read_bytes() == content
    site.post(TEXT, {"text": f"{sent}x\r\n", "version": field(site.get(TEXT), "version")})
    assert file.read_bytes() == content + (b"x\r\n" if b"\r" in content else b"x\n")


def test_a_file_whose_lines_end_in_different_ways(site: ConsoleSite) -> None:
    (shop(site) / "notes.txt").write_bytes(b"a\r\nb\n")
    opened = site.get(TEXT)
    assert "all lines end with LF" in opened.page.text
    site.post(TEXT, {"text": "a\r\nb\r\nc", "version": field(opened, "version")})
    assert (shop(site) / "notes.txt").read_bytes() == b"a\nb\nc"


def test_a_file_that_somebody_else_has_changed(site: ConsoleSite) -> None:
    opened = site.get(TEXT)
    (shop(site) / "notes.txt").write_text("one\nelse\n")
    form = {"text": f"one\r\nmine {HOSTILE}\r\n", "version": field(opened, "version")}
    answer = site.post(TEXT, form)
    assert answer.status == 409 and "was changed by somebody else" in answer.page.text
    assert "<del>else</del><ins>mine &#34;" in answer.body.decode()
    assert (shop(site) / "notes.txt").read_text() == "one\nelse\n"
    assert text_of(answer) == f"one\nmine {HOSTILE}\n"
    again = site.post(TEXT, {**form, "version": field(answer, "version")})
    assert again.status == 303 and (shop(site) / "notes.txt").read_text() == f"one\nmine {HOSTILE}\n"
    (shop(site) / "notes.txt").unlink()
    gone = site.post(TEXT, {**form, "version": field(answer, "version")}, token=field(answer, "_token"))
    assert gone.status == 409 and "was removed by somebody else" in gone.page.text and field(gone, "version") == ""
    assert not (shop(site) / "notes.txt").exists()


def test_a_new_file(site: ConsoleSite) -> None:
    path = "/console/applications/shop?" + urlencode({"file": 'web/a "b" <i>ü.txt', "new": "true"})
    page = site.get(path)
    assert page.status == 200 and "A new file" in page.page.text
    answer = site.post(path, {"text": "x", "version": ""})
    assert answer.status == 303 and (shop(site) / "web" / 'a "b" <i>ü.txt').read_text() == "x"
    taken = site.post(path, {"text": "y", "version": ""})
    assert taken.status == 409 and "was made by somebody else" in taken.page.text
    assert site.get(TEXT.replace("notes", "nosuch")).status == 404


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "web/\u202ex"])
def test_paths_that_lead_out_are_refused(site: ConsoleSite, name: str) -> None:
    before = tree(site)
    answer = site.get("/console/applications/shop?" + urlencode({"file": name, "new": "true"}))
    assert answer.status == 400 and "Invalid file path" in answer.page.text
    made = site.post("/console/applications/shop", {"file": name, "do": "directory"})
    assert made.status == 400
    typed = made.page.find("input", id="field-file")
    assert (typed["value"], typed["aria-invalid"], typed["aria-describedby"]) == (name, "true", "hint-file fault-file")
    assert site.get("/console/applications/shop/content?" + urlencode({"file": name})).status == 400
    assert tree(site) == before


def test_directories_and_files_are_made_and_removed(site: ConsoleSite) -> None:
    answer = site.post("/console/applications/shop?dir=web", {"file": "web/new dir", "do": "directory"})
    assert answer.location.startswith("../applications/shop?dir=web&note=Successfully")
    assert (shop(site) / "web" / "new dir").is_dir()
    content = bytes(range(256))
    sent = upload(site, "/console/applications/shop", {"file": "web/b.bin"}, {"content": ("x.bin", content)})
    assert sent.status == 303 and (shop(site) / "web" / "b.bin").read_bytes() == content
    page = site.get("/console/applications/shop?file=web/b.bin")
    assert "256 bytes" in page.page.text and "no text" in page.page.text and not any(tag == "textarea" for tag, _ in page.page.elements)
    loaded = site.get("/console/applications/shop/content?file=web/b.bin")
    assert loaded.body == content
    fields = dict(loaded.headers)
    assert fields["Content-Type"] == "application/octet-stream" and fields["Content-Disposition"].startswith('attachment; filename="b.bin"')
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert site.post("/console/applications/shop", {"file": "web/c.bin"}).status == 400
    path = "/console/applications/shop/drop?file=web/b.bin"
    assert "web/b.bin" in site.get(path).page.text
    assert site.post(path, {}).location.startswith("../../applications/shop?note=Successfully")
    assert not (shop(site) / "web" / "b.bin").exists()


def test_large_files(site: ConsoleSite) -> None:
    line = "x" * 63 + "\n"
    file = shop(site) / "notes.txt"
    file.write_text(line * (1 << 14))
    opened = site.get(TEXT)
    assert len(text_of(opened)) == 1 << 20
    sent = upload(site, TEXT, {"text": (line * (1 << 14)).replace("\n", "\r\n") + "end", "version": field(opened, "version")}, {})
    assert sent.status == 303 and file.read_text() == line * (1 << 14) + "end"
    assert "longer than can be edited" in site.get(TEXT).page.text
    file.write_bytes(b"x" * 5_242_881)
    answer = site.get(TEXT)
    assert answer.status == 413 and "operationsApi.componentFile.maxSize" in answer.page.text and "config.yaml" in answer.page.text
    sent = upload(site, "/console/applications/shop", {"file": "new.bin"}, {"content": ("x", b"x" * 5_242_881)})
    assert sent.status == 413 and "operationsApi.componentFile.maxSize" in sent.page.text and not (shop(site) / "new.bin").exists()


def test_hostile_names_and_contents(site: ConsoleSite) -> None:
    name = HOSTILE.replace("/", "")
    (shop(site) / name).write_text(f"</textarea>{HOSTILE}\u202e")
    page = site.get("/console/applications/shop")
    opened = site.get("/console/applications/shop?" + urlencode({"file": name}))
    assert text_of(opened) == f"</textarea>{HOSTILE}\u202e" and "characters that are not seen" in opened.page.text
    for answer in (page, opened, site.get("/console/applications/shop/drop?" + urlencode({"file": name}))):
        assert name in answer.page.text and b"<img src=x" not in answer.body


# --- deploying ---------------------------------------------------------------------------------------------------------------------------


def test_an_archive_is_deployed_and_its_steps_are_shown(site: ConsoleSite) -> None:
    archive = tar_of({"config.yaml": "rest: true\n", "v1.txt": "1"})
    form = site.get("/console/applications?do=deploy")
    assert form.page.find("input", name="archive", type="file")
    answer = upload(site, "/console/applications?do=deploy", {"project": "shop", "restart": "true"}, {"archive": ("s.tgz", archive)})
    assert answer.status == 303 and answer.location.startswith("./applications/shop/deployments/"), answer.body
    path = answer.location.replace("./", "/console/")
    settle(site)
    ended = site.get(path)
    assert (
        "success" in ended.page.text and "unpacks" in ended.page.text and "data-poll" not in ended.body.decode() and ended.page.reload == ""
    )
    assert sorted(tree(site)) == ["config.yaml", "v1.txt"]
    second = tar_of({"config.yaml": "rest: true\n", "v2.txt": "2"})
    upload(site, "/console/applications/shop/deploy", {"restart": "false"}, {"archive": ("s.tgz", second)})
    settle(site)
    assert sorted(tree(site)) == ["config.yaml", "v2.txt"]
    listed = site.get("/console/applications").page
    assert [row[1:4] for row in listed.rows[3:]] == [["shop", "success", "archive"]] * 2
    assert site.get(f"{path}/archive").body == archive
    back = site.post(path, {"restart": "true"})
    assert back.status == 303
    settle(site)
    assert sorted(tree(site)) == ["config.yaml", "v1.txt"]
    assert "The archive of the deployment" in site.get(f"{path}/delete").page.text
    assert site.post(f"{path.replace('/shop/', '/other/')}/delete", {}, token=field(site.get(path), "_token")).status == 404
    assert "Deleted" in site.post(f"{path}/delete", {}).location
    assert site.get(f"{path}/archive").status == 404
    gone = site.post(path, {"restart": "true"})
    assert gone.status == 404 and "not there any more" in gone.page.text
    assert site.get(path.replace("/shop/", "/other/")).status == 404


def test_a_deployment_that_goes_on(site: ConsoleSite) -> None:
    records = site.node.node.deployments.records
    transaction = site.node.store.begin()
    record = {
        "deployment_id": "d1", "project": "shop", "status": "pending", "phase": "prepare", "user": HOSTILE, "package_identifier": HOSTILE,
        "event_log": [{"time": 1, "phase": "prepare", "message": HOSTILE}], "started_at": 1,
    }  # fmt: skip
    transaction.put(records.table, "d1", record)
    site.node.store.commit_now(transaction)
    answer = site.get("/console/applications/shop/deployments/d1")
    assert answer.page.find("section", id="deployment")["data-poll"] == "2" and answer.page.links["Look again"] == "?"
    assert answer.page.reload == "3"
    assert any(tag == "script" and "live" in each["src"] for tag, each in answer.page.elements)
    listed = site.get("/console/applications")
    assert listed.page.find("section", id="deployment-list")["data-poll"] == "2"
    for each in (answer, listed, site.get("/console/applications/shop")):
        assert b"<img src=x" not in each.body and HOSTILE in each.page.text


def test_what_is_no_archive_changes_nothing(site: ConsoleSite) -> None:
    before = tree(site)
    answer = upload(site, "/console/applications/shop/deploy", {}, {"archive": ("s.tgz", b"no archive")})
    settle(site)
    ended = site.get(answer.location.replace("../", "/console/", 1).replace("../", ""))
    assert "failed" in ended.page.text and "archive" in ended.page.find("pre")["class"] + ended.page.text
    assert tree(site) == before


@pytest.mark.parametrize(
    ("fields", "text", "at"),
    [
        ({"project": "shop"}, "Either payload or package must be provided", "package"),
        ({"project": "../x", "package": "acme/shop"}, "Project name can only contain", "package"),
        ({"project": "rest", "package": "acme/shop"}, "'force' must be true", "force"),
        ({"project": "shop", "package": HOSTILE}, "not supported", "package"),
        ({"project": "shop", "package": "acme/shop", "install_timeout": "x"}, "whole number of milliseconds", "install_timeout"),
        ({"package": "acme/shop", "install_timeout": "0"}, "must be", "install_timeout"),
        ({"project": "http", "package": "acme/shop", "force": "true"}, "is a section", "package"),
    ],
)
def test_deployments_that_are_refused(site: ConsoleSite, fields: dict[str, str], text: str, at: str) -> None:
    before = tree(site)
    answer = site.post("/console/applications?do=deploy", fields)
    assert answer.status == 400 and text in answer.page.text
    assert answer.page.find("input", name=at)["aria-invalid"] == "true"
    for name, value in fields.items():
        assert answer.page.find("input", name=name)["value"] == value
    assert b"<img src=x" not in answer.body
    assert tree(site) == before and site.node.run("list_deployments")["total"] == 0


def test_an_application_is_added_packed_and_removed(site: ConsoleSite) -> None:
    assert site.post("/console/applications?do=add", {"project": "new-one"}).location.startswith("./applications/new-one?note=Successfully")
    assert "config.yaml" in os.listdir(site.node.root / "components" / "new-one")
    again = site.post("/console/applications?do=add", {"project": "new-one"})
    assert again.status == 400 and "Project already exists" in again.page.text
    assert again.page.find("input", name="project")["aria-invalid"] == "true"
    assert site.post("/console/applications?do=add", {}).status == 400
    packed = site.get("/console/applications/shop/archive?skip_symlinks=true")
    with tarfile.open(fileobj=io.BytesIO(packed.body), mode="r:gz") as archive:
        assert "notes.txt" in "".join(archive.getnames())
    assert base64.b64decode(site.node.run("package_component", project="shop", skip_symlinks=True)["payload"])[:2] == packed.body[:2]
    assert site.get("/console/applications/nosuch/archive").status == 404
    wrong = site.post("/console/applications/shop/drop", {"typed": "sho"})
    assert wrong.status == 400 and wrong.page.find("input", name="typed")["aria-invalid"] == "true" and shop(site).exists()
    right = site.post("/console/applications/shop/drop", {"typed": "shop", "restart": "true"})
    assert right.location.startswith("../../applications?note=Successfully") and not shop(site).exists()


# --- rights ------------------------------------------------------------------------------------------------------------------------------

READING = {"super_user": False, "operations": ["get_components", "get_component_file", "list_deployments", "get_deployment"]}
OFFERS = {
    "Deploy an application", "Add a new one", "Deploy a version", "Remove", "Remove config.yaml", "Download its archive",
    "Deploy its package again", "Remove its archive",
}  # fmt: skip


def test_what_installs_code_is_not_offered_to_others(site: ConsoleSite) -> None:
    upload(site, "/console/applications/shop/deploy", {}, {"archive": ("s", tar_of({"config.yaml": "", "notes.txt": "one\ntwo\n"}))})
    settle(site)
    [record] = site.node.run("list_deployments")["deployments"]
    reader = site.node.user("reader", READING)
    assert site.get("/console/applications", reader).page.links["Applications"]
    paths = [
        "/console/applications",
        "/console/applications/shop",
        TEXT,
        f"/console/applications/shop/deployments/{record['deployment_id']}",
    ]
    for path in paths:
        answer = site.get(path, reader)
        assert answer.status == 200 and OFFERS.isdisjoint(answer.page.links) and OFFERS & site.get(path).page.links.keys()
        assert not any(each.get("method") == "post" and "logout" not in each.get("action", "") for _, each in answer.page.elements)
    assert "one\ntwo" in site.get(TEXT, reader).page.text
    token = field(site.get("/console/applications", reader), "_token")
    before = tree(site)
    for path in (
        "?do=deploy",
        "?do=add",
        "/shop/drop",
        "/shop/deploy",
        "/shop/archive",
        f"{paths[-1].removeprefix('/console/applications')}/archive",
    ):
        assert site.get(f"/console/applications{path}", reader).status == 403, path
    for path, form in {
        "?do=deploy": {"project": "shop", "package": "acme/shop"},
        "?do=add": {"project": "x"},
        "/shop/drop": {"typed": "shop"},
        "/shop/deploy": {"package": "acme/shop"},
        "/shop": {"file": "x", "do": "directory"},
        "/shop?file=notes.txt": {"text": "x", "version": ""},
        paths[-1].removeprefix("/console/applications"): {"restart": "true"},
        f"{paths[-1].removeprefix('/console/applications')}/delete": {},
    }.items():
        answer = site.post(f"/console/applications{path}", form, reader, token=token)
        assert answer.status in (403, 409), (path, answer.status)
    assert tree(site) == before and site.node.run("list_deployments")["total"] == 1


@pytest.mark.parametrize("permission", [{"super_user": False}, {"super_user": False, "structure_user": True}])
def test_others_do_not_see_the_place(site: ConsoleSite, permission: dict[str, Any]) -> None:
    user = site.node.user("ann", permission)
    assert site.get("/console/applications", user).status == 403
    assert "Applications" not in site.get("/console/", user).page.links
    assert site.get("/console/applications", None).status == 401


def test_forms_without_their_token_or_from_elsewhere_do_nothing(site: ConsoleSite) -> None:
    before = tree(site)
    for path, form in ((TEXT, {"text": "x"}), ("/console/applications/shop/drop", {"typed": "shop"})):
        assert site.post(path, form, token=None).status == 403
        assert site.post(path, form, token="0" * 32).status == 403
    assert tree(site) == before
    assert SentForm().text("x") == ""
