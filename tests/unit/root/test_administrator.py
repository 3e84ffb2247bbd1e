"""The first super user and the initial password."""

import io
from pathlib import Path

from svc.root.administrator import initial_password_notice, keep_initial_password, remove_initial_password, take_administrator


def test_the_password_leaves_the_environment_and_the_options() -> None:
    env = {"svc_admin_password": "one", "SVC_ADMIN_USERNAME": "ann", "PATH": "/bin"}
    options = {"SVC_ADMIN_PASSWORD": "two"}
    administrator = take_administrator(env, options)
    assert (administrator.username, administrator.password) == ("ann", "two")
    assert env == {"SVC_ADMIN_USERNAME": "ann", "PATH": "/bin"}
    assert options == {}
    assert "two" not in repr(administrator)


def test_no_or_a_blank_password_is_none() -> None:
    assert take_administrator({}, {}).password is None
    assert take_administrator({"SVC_ADMIN_PASSWORD": "  "}, {}).password is None


def test_the_initial_password_is_shown_once_and_kept(tmp_path: Path) -> None:
    terminal = io.StringIO()
    keep_initial_password(tmp_path, "admin", "s3cret", terminal)
    file = tmp_path / "initial-admin-password"
    assert file.read_text() == "s3cret\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert terminal.getvalue().count("s3cret") == 1
    assert str(file) in (initial_password_notice(tmp_path) or "")
    assert "s3cret" not in (initial_password_notice(tmp_path) or "")
    remove_initial_password(tmp_path)
    remove_initial_password(tmp_path)
    assert initial_password_notice(tmp_path) is None
