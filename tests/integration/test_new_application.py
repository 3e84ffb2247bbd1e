"""What `svc new` makes: its own tests, and the application on the real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from svc.stubs import write_application
from tests.integration.conftest import PASSWORD, Process
from tests.integration.test_browser import CHROMIUM, visit

pytestmark = pytest.mark.programs

LIMIT = 300  # seconds


def test_its_own_tests_pass(tmp_path: Path) -> None:
    write_application(tmp_path / "shop", "shop")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "--override-ini",
        "addopts=--import-mode=importlib",
    ]
    done = subprocess.run(command, cwd=tmp_path / "shop", env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_it_is_served_as_it_says(tmp_path: Path) -> None:
    write_application(tmp_path / "shop", "shop")
    process = Process(tmp_path / "root", tmp_path / "shop").start()
    try:
        with httpx.Client(base_url=process.url, auth=("admin", PASSWORD), timeout=30) as client:
            page = client.get("/")
            assert (page.status_code, page.headers["content-type"].split(";")[0]) == (200, "text/html")
            assert "<title>shop</title>" in page.text
            made = client.post("/Task/", json={"title": "Water the plants", "done": False, "listName": "home"})
            assert made.status_code == 201
            assert client.patch(made.headers["location"], json={"title": "  "}).json()["detail"] == "a task needs a title"
            assert client.post(made.headers["location"]).json()["done"] is True
            assert client.get("/Progress").json() == {"home": {"open": 0, "done": 1}}
            assert [each["name"] for each in client.get("/List/?sort(name)").json()] == ["home", "work"]
            assert client.get("/resources.py").status_code == 404
        with httpx.stream("GET", f"{process.url}/Task/", headers={"Accept": "text/event-stream"}, auth=("admin", PASSWORD)) as events:
            assert any('"title":"Water the plants"' in line for line in _until_data(events))
    finally:
        assert process.stop() == 0, process.output()
    assert "[error]" not in process.logged()
    # That a handler held the loop is said where the machine is busy.
    assert not [line for line in process.logged().splitlines() if "[warn]" in line and " held the loop for " not in line]


def _until_data(events: httpx.Response) -> list[str]:
    lines = []
    for line in events.iter_lines():
        lines.append(line)
        if line.startswith("data:"):
            break
    return lines


USER = """<script type="module">
const until = async (holds) => { while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10)) }
const items = () => [...document.querySelectorAll("li")].map((item) => `${item.lastChild.textContent}:${item.className}`)
const send = (method, path, value) => fetch(path, {method, headers: {"Content-Type": "application/json"}, body: JSON.stringify(value)})
const form = document.querySelector("form"), told = []
async function run() {
  await until(() => items().length === 1)
  told.push(items())
  form.elements.title.value = "<b>bold</b>"
  form.requestSubmit()
  await until(() => items().length === 2 && form.elements.title.value === "")  // the event may come before the answer
  told.push(items())
  document.querySelector("li input").click()
  await until(() => document.querySelector("li").className === "done")
  told.push(items())
  form.elements.title.value = " "
  form.requestSubmit()
  await until(() => document.querySelector("#fault").textContent)
  told.push(document.querySelector("#fault").textContent)
  await send("DELETE", "/Task/first")
  await until(() => items().length === 1)
  told.push(items())
}
run().then(() => told, String).then((value) => send("PUT", "/List/result", {value}))
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_its_page_shows_and_changes_tasks(tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    write_application(directory, "shop")
    with (directory / "web" / "index.html").open("a") as page:
        page.write(USER)
    process = Process(tmp_path / "root", directory, env={"AUTHENTICATION_AUTHORIZELOCAL": "true"}).start()
    try:
        with httpx.Client(base_url=process.url, auth=("admin", PASSWORD), timeout=30) as client:
            assert client.put("/Task/first", json={"title": "Water the plants", "done": False}).status_code == 204
            result = visit(client, f"{process.url}/", "/List/result", tmp_path)
    finally:
        assert process.stop() == 0, process.output()
    before, added, done, fault, after = result["value"]
    assert before == ["Water the plants:"]
    assert added == ["Water the plants:", "<b>bold</b>:"]
    assert done == ["Water the plants:done", "<b>bold</b>:"]
    assert fault == "a task needs a title"
    assert after == ["<b>bold</b>:"]
