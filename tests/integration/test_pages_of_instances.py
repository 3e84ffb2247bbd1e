"""Pages of a server with two processes: what one of them has shown, the other takes; and what was answered is on the disk (spec: http §7.8)."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.sent_forms import PageForm, forms_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = "type Row @table @export { id: ID @primaryKey n: Int }"
HTML = {"accept": "text/html"}
TIMES = 12  # each request comes to any of the two


def get(server: Process, address: str, auth: tuple[str, str] | None = None) -> httpx.Response:
    """Each time on a connection of its own."""
    return httpx.get(f"{server.url}{address}", auth=auth, headers=HTML, timeout=60)


def post(
    server: Process, address: str, form: PageForm, button: tuple[str, str] | None = None, auth: tuple[str, str] | None = None
) -> httpx.Response:
    files = {"file": ("a.csv", "text/csv", b"id,n\nx,1\ny,2\n")} if form.files else None
    body, kind = form.body(button, files)
    return httpx.post(f"{server.url}{address}", content=body, auth=auth, headers={"content-type": kind, **HTML}, timeout=60)


def test_one_process_takes_what_the_other_has_shown(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    env = {"INSTANCES": "2", "AUTHENTICATION_AUTHORIZELOCAL": "true"}
    server = Process(tmp_path / "root", app, env=env, forked=False).start()  # a fork of a test has all modules of its parent
    try:
        wait_until(lambda: server.logged().count("successfully started") == 2)
        for auth in (None, ("admin", PASSWORD)):  # being on this machine, or a password
            edit(server, auth)
        load_files(server)
        restart(server)
    finally:
        server.kill()


def edit(server: Process, auth: tuple[str, str] | None) -> None:
    assert httpx.put(f"{server.url}/Row/a", json={"n": -1}, auth=auth).status_code in (201, 204)
    for number in range(TIMES):
        [form] = [each for each in forms_of(get(server, "/Row/a?_view=edit", auth).content) if "v.n" in each]
        form.fill("v.n", str(number))
        assert post(server, "/Row/a?_view=edit", form, auth=auth).status_code == 303
        assert httpx.get(f"{server.url}/Row/a", auth=auth).json()["n"] == number


def load_files(server: Process) -> None:
    for _ in range(TIMES):
        [form] = [each for each in forms_of(get(server, "/Row/?_view=import").content) if each.files]
        sent = post(server, "/Row/?_view=import", form)
        assert sent.status_code == 303, sent.text
        columns = get(server, f"/Row/{sent.headers['location']}")
        assert columns.status_code == 200, columns.text
        [run] = [each for each in forms_of(columns.content) if ("step", "run") in [*each.fields, *each.buttons]]
        loading = post(server, "/Row/?_view=import", run, run.buttons[0] if run.buttons else None)
        assert loading.status_code == 303, loading.text
        assert get(server, f"/Row/{loading.headers['location']}").status_code == 200


def restart(server: Process) -> None:
    """What was answered outlives the processes."""
    [form] = [each for each in forms_of(get(server, "/Row/a?_view=edit").content) if "v.n" in each]
    form.fill("v.n", "4711")
    assert post(server, "/Row/a?_view=edit", form).status_code == 303
    server.kill()
    server.start()
    assert httpx.get(f"{server.url}/Row/a").json()["n"] == 4711
