"""Accounts over HTTP, on an instance without ports: sign-up, confirmation, passwords, addresses, the own account (spec: rows §2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import ADDRESS, PASSWORD, ROLES, SCHEMA, Site, open_site

NEW = "another horse"
URL = "url: 'https://shop.example'"


@pytest.fixture
def named(tmp_path: Path) -> Iterator[Site]:
    """Members choose names; an address is not needed."""
    with open_site(tmp_path / "site", f"{{role: member, {URL}}}") as site:
        yield site
        site.check()


@pytest.fixture
def verified(tmp_path: Path) -> Iterator[Site]:
    """Members log in with an address that they have confirmed."""
    with open_site(tmp_path / "site", f"{{role: member, identity: email, {URL}}}") as site:
        yield site
        site.check()


def member(site: Site, address: str = ADDRESS, **fields: Any) -> str:
    """Sign up, confirm; the name of the user."""
    assert site.sign_up(email=address, **fields).status == 202
    answer = site.post("/confirm", {"code": site.code()})
    assert answer.status == 200, answer.text
    return str(answer.json["username"])


# --- signing up ---------------------------------------------------------------------------------------------------------------------------


def test_a_name_and_a_password_are_enough(named: Site) -> None:
    answer = named.sign_up(username="ann", name="Ann", born=1990)

    assert (answer.status, answer.headers["Location"], answer.headers["Cache-Control"]) == (201, "/accounts/me", "no-store")
    assert answer.json["role"] == "member"
    record = answer.json["record"]
    assert (record["username"], record["name"], record["born"]) == ("ann", "Ann", 1990)
    assert named.users == named.records == ["ann"]
    assert named.can_log_in("ann") and not named.can_log_in("ann", "wrong horse")


def test_a_form_signs_up(named: Site) -> None:
    answer = named.post("", data={"username": "ann", "password": PASSWORD, "born": "1990"})
    assert answer.status == 201
    assert answer.json["record"]["born"] == 1990


def test_a_name_is_taken_once(named: Site) -> None:
    assert named.sign_up(username="ann").status == 201
    answer = named.sign_up(username="ann", password=NEW)
    assert (answer.status, answer.json["code"]) == (409, "NAME_TAKEN")
    assert named.can_log_in("ann") and not named.can_log_in("ann", NEW)


def test_the_name_of_an_operator_is_taken_and_the_operator_stays(named: Site) -> None:
    assert named.sign_up(username="admin").status == 409
    assert [user["username"] for user in named.application.operation("list_users")] == ["admin"]


def test_a_record_without_a_user_is_not_taken_over(named: Site) -> None:
    named.application.tables.Person.put("eve", {"username": "eve", "karma": 7})
    answer = named.sign_up(username="eve")
    assert (answer.status, answer.json["code"]) == (409, "NAME_TAKEN")
    assert named.records == ["eve"] and named.users == []
    named.application.tables.Person.delete("eve")


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "super_user"},
        {"role": {"id": "super_user"}},
        {"active": False},
        {"hash_function": "md5"},
        {"login_epoch": "x"},
        {"joined": 1},
        {"__createdtime__": 1},
        {"nothing": 1},
        {"Username": "x"},
        {"id": "x"},
    ],
)
def test_what_is_not_for_members_is_refused(named: Site, fields: dict[str, Any]) -> None:
    answer = named.sign_up(username="ann", **fields)
    assert (answer.status, answer.json["code"]) == (400, "VALIDATION")
    assert next(iter(fields)) in answer.json["detail"]
    assert named.users == named.records == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'username' is required"),
        ({"username": ""}, "'username' is required"),
        ({"username": 7}, "'username' must be a string"),
        ({"username": ["ann"]}, "'username' must be a string"),
        ({"username": "a:b"}, "':'"),
        ({"username": " ann"}, "space"),
        ({"username": "a\nb"}, "control characters"),
        ({"username": "x" * 101}, "100 characters"),
        ({"username": "\ud800"}, "surrogate"),
        ({"username": "p\u0430yp\u0430l"}, "several scripts"),
        ({"username": "\uff41\uff4e\uff4e"}, "full-width"),
        ({"username": "\uff4b\uff45\uff59\uff1arobot"}, "full-width"),
        ({"username": "ann", "password": "short"}, "8 characters"),
        ({"username": "ann", "password": ""}, "'password' is required"),
        ({"username": "ann", "password": 12345678}, "'password' must be a string"),
        ({"username": "ann", "password": " " * 10}, "white space"),
        ({"username": "ann", "born": "never"}, "born"),
        ({"username": "ann", "name": {"__op__": "add", "value": 1}}, "name"),
        ({"username": "ann", "email": "ann"}, "'email' must be"),
        ({"username": "ann", "email": "ann@example.org\r\nBcc: eve@example.org"}, "'email' must be"),
        ({"username": "ann", "email": {"a": 1}}, "'email' must be"),
    ],
)
def test_bad_values_say_what_is_wrong(named: Site, fields: dict[str, Any], text: str) -> None:
    answer = named.sign_up(**fields)
    assert answer.status == 400, answer.text
    assert text in answer.json["detail"]


def test_bodies_that_are_no_objects(named: Site) -> None:
    for body in ([], "x", 7, True):
        assert named.application.post("/accounts", body, user=None).status == 400
    assert named.application.post("/accounts", data=b"", user=None).status in (400, 411)
    assert named.application.post("/accounts", data=b"x" * 70_000, user=None).status == 413


def test_other_methods(named: Site) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", "/confirm"), ("PUT", "/me"), ("POST", "/me"), ("QUERY", "/forgot")):
        answer = named.application.request(method, f"/accounts{path}", {}, user=None) if method != "GET" else named.get(path)
        assert answer.status == 405, (method, path)
        assert "Allow" in answer.headers
    assert named.application.request("OPTIONS", "/accounts/me", user=None).headers["Allow"] == "GET, HEAD, PATCH, DELETE, OPTIONS"


def test_sign_up_can_be_closed(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, signUp: false}") as site:
        answer = site.sign_up(username="ann")
        assert (answer.status, answer.json["code"]) == (403, "SIGN_UP_CLOSED")
        assert site.users == []


def test_password_rules(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, passwords: {minimumLength: 20}}") as site:
        assert "20 characters" in site.sign_up(username="ann", password="x" * 19).json["detail"]
        assert site.sign_up(username="ann", password="x" * 20).status == 201


def test_attributes_that_members_may_set_can_be_few(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, attributes: [name]}") as site:
        assert site.sign_up(username="ann", karma=1000).status == 400
        assert site.sign_up(username="ann", name="Ann").status == 201


def test_a_role_with_a_list_of_attributes_narrows_what_members_set(tmp_path: Path) -> None:
    roles = "member: {data: {Person: {read: true, update: true, attributes: {name: {read: true, update: true}, karma: {read: true}}}}}\n"
    with open_site(tmp_path / "site", "{role: member}", roles=roles) as site:
        assert site.sign_up(username="ann", karma=1000).status == 400
        answer = site.sign_up(username="ann", name="Ann")
        assert answer.status == 201
        assert answer.json["record"].keys() == {"username", "name"}


def test_the_address_of_a_named_account_counts_when_it_is_confirmed(named: Site) -> None:
    answer = named.sign_up(username="ann", email=ADDRESS)
    assert answer.status == 201 and answer.json["record"].get("email") is None
    assert named.post("/confirm", {"code": named.code()}).json["username"] == "ann"
    assert named.accounts.user_by_address("ANN@example.org ").username == "ann"  # type: ignore[union-attr]


# --- confirmation -------------------------------------------------------------------------------------------------------------------------


def test_an_account_is_made_when_its_address_is_confirmed(verified: Site) -> None:
    answer = verified.sign_up(email=" Ann@Example.org", name="Ann")

    assert answer.status == 202
    assert verified.users == verified.records == []
    assert not verified.can_log_in(ADDRESS)
    (mail,) = verified.mails
    code = verified.code()
    assert mail.to == ADDRESS and f"https://shop.example/accounts/confirm?code={code}" in mail.text

    assert verified.post("/confirm", {"code": code}).status == 200
    assert verified.can_log_in(ADDRESS) and verified.can_log_in("ANN@example.org")
    assert len(verified.users) == 1


def test_a_name_may_be_chosen_though_the_address_logs_in(verified: Site) -> None:
    assert member(verified, username="ann") == "ann"
    assert verified.sign_up(email="other@example.org", username="ann").json["code"] == "NAME_TAKEN"
    assert verified.can_log_in(ADDRESS)
    answer = verified.sign_up(email="eve@example.org", username="other@example.org")
    assert answer.status == 400 and "address" in answer.json["detail"], "else its owner would log in to another account"


def test_a_code_is_for_one_use(verified: Site) -> None:
    verified.sign_up(email=ADDRESS)
    code = verified.code()
    assert verified.post("/confirm", {"code": code}).status == 200
    answer = verified.post("/confirm", {"code": code})
    assert (answer.status, answer.json["code"]) == (400, "INVALID_CODE")


def test_a_code_is_for_an_hour(verified: Site) -> None:
    verified.sign_up(email=ADDRESS)
    code = verified.code()
    verified.application.clock.advance(3601)
    assert verified.post("/confirm", {"code": code}).json["code"] == "INVALID_CODE"
    assert verified.users == []


@pytest.mark.parametrize("code", ["", "x", "A" * 22, "A" * 21 + "=", "ä" * 22, 7, None, ["x"], "x" * 10_000])
def test_codes_that_are_none(verified: Site, code: Any) -> None:
    for path, more in (("/confirm", {}), ("/reset", {"password": NEW})):
        answer = verified.post(path, {"code": code, **more})
        assert answer.status == 400
        assert answer.json["code"] in ("INVALID_CODE", "VALIDATION")


def test_codes_are_for_what_they_were_made_for(verified: Site) -> None:
    verified.sign_up(email=ADDRESS)
    assert verified.post("/reset", {"code": verified.code(), "password": NEW}).json["code"] == "INVALID_CODE"
    assert verified.post("/confirm", {"code": verified.code()}).status == 200
    verified.post("/forgot", {"email": ADDRESS})
    assert verified.post("/confirm", {"code": verified.code()}).json["code"] == "INVALID_CODE"


def test_nothing_of_a_code_or_what_it_is_for_is_at_rest(verified: Site) -> None:
    verified.sign_up(email=ADDRESS, name="Annabel")
    code = verified.code()
    path = verified.application.instance.server.config.storage.path
    verified.application.settle()
    content = b"".join(file.read_bytes() for file in path.rglob("*.mdb"))
    assert content
    assert code.encode() not in content and b"Annabel" not in content


def test_two_who_have_chosen_one_name(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", f"{{role: member, verify: true, {URL}}}") as site:
        site.sign_up(username="ann", email=ADDRESS)
        first = site.code()
        site.sign_up(username="ann", email="other@example.org")
        second = site.code()
        assert site.post("/confirm", {"code": second}).status == 200
        assert site.post("/confirm", {"code": first}).json["code"] == "NAME_TAKEN"
        assert site.sign_up(username="ann", email=ADDRESS).json["code"] == "NAME_TAKEN"
        site.check()


def test_two_codes_for_one_address(verified: Site) -> None:
    verified.sign_up(email=ADDRESS)
    first = verified.code()
    verified.sign_up(email=ADDRESS, password=NEW)
    assert verified.post("/confirm", {"code": verified.code()}).status == 200
    assert verified.post("/confirm", {"code": first}).json["code"] == "ADDRESS_TAKEN"
    assert verified.can_log_in(ADDRESS, NEW) and not verified.can_log_in(ADDRESS)


# --- forgotten passwords --------------------------------------------------------------------------------------------------------------------


def test_a_reset_ends_all_logins(verified: Site) -> None:
    member(verified)
    app = verified.application
    assert app.post("/login", {"username": ADDRESS, "password": PASSWORD}, user=None).status == 200
    assert verified.get("/me").status == 200
    tokens = app.operation("create_authentication_tokens", username=ADDRESS, password=PASSWORD)
    bearer = {"Authorization": f"Bearer {tokens['operation_token']}"}
    assert verified.get("/me", headers=bearer).status == 200

    assert verified.post("/forgot", {"email": ADDRESS}).status == 202
    code = verified.code()
    answer = verified.post("/reset", {"code": code, "password": NEW})

    assert answer.status == 200
    assert verified.get("/me").status == 401
    assert verified.get("/me", headers=bearer).status == 401
    with pytest.raises(Exception, match="invalid token"):
        app.operation("refresh_operation_token", refresh_token=tokens["refresh_token"])
    assert verified.can_log_in(ADDRESS, NEW) and not verified.can_log_in(ADDRESS)
    assert verified.mails[-1].subject == "Your password was changed"
    assert verified.post("/reset", {"code": code, "password": "a third horse"}).json["code"] == "INVALID_CODE"


def test_a_reset_is_for_half_an_hour(verified: Site) -> None:
    member(verified)
    verified.post("/forgot", {"email": ADDRESS})
    verified.application.clock.advance(1801)
    assert verified.post("/reset", {"code": verified.code(), "password": NEW}).json["code"] == "INVALID_CODE"


def test_another_password_makes_codes_void(verified: Site) -> None:
    member(verified)
    verified.post("/forgot", {"email": ADDRESS})
    first = verified.code()
    verified.post("/forgot", {"email": ADDRESS})
    assert verified.post("/reset", {"code": verified.code(), "password": NEW}).status == 200
    assert verified.post("/reset", {"code": first, "password": "a third horse"}).json["code"] == "INVALID_CODE"


def test_a_code_is_not_for_another_account_of_the_same_name(named: Site) -> None:
    named.sign_up(username="ann", email=ADDRESS)
    named.post("/confirm", {"code": named.code()})
    named.post("/forgot", {"email": ADDRESS})
    code = named.code()
    named.application.operation("drop_user", username="ann")
    named.sign_up(username="ann", email=ADDRESS)
    assert named.post("/reset", {"code": code, "password": NEW}).json["code"] == "INVALID_CODE"
    assert named.can_log_in("ann")


def test_an_account_that_is_inactive_gets_no_code(verified: Site) -> None:
    username = member(verified)
    verified.application.operation("alter_user", username=username, active=False)
    count = len(verified.mails)
    assert verified.post("/forgot", {"email": ADDRESS}).status == 202
    assert len(verified.mails) == count


def test_a_password_that_is_refused_leaves_the_code(verified: Site) -> None:
    member(verified)
    verified.post("/forgot", {"email": ADDRESS})
    assert verified.post("/reset", {"code": verified.code(), "password": "short"}).json["code"] == "VALIDATION"
    assert verified.post("/reset", {"code": verified.code(), "password": NEW}).status == 200


def test_the_own_password_needs_the_one_before(named: Site) -> None:
    named.sign_up(username="ann")
    app = named.application
    assert named.can_log_in("ann")  # keeps the cookie
    other = app.operation("create_authentication_tokens", username="ann", password=PASSWORD)["operation_token"]
    wrong = named.post("/password", {"current_password": "wrong horse", "password": NEW})
    assert (wrong.status, wrong.json["detail"]) == (403, "current_password is wrong")
    assert named.post("/password", {"password": NEW}).status == 400
    assert named.post("/password", {"current_password": PASSWORD, "password": "x"}).status == 400
    assert named.post("/password", {"current_password": PASSWORD, "password": NEW}).status == 200
    assert named.get("/me").status == 200, "the session that has changed it goes on"
    assert named.get("/me", headers={"Authorization": f"Bearer {other}"}).status == 401
    assert named.can_log_in("ann", NEW) and not named.can_log_in("ann")
    bearer = {"Authorization": f"Bearer {app.operation('create_authentication_tokens', username='ann', password=NEW)['operation_token']}"}
    again = named.post("/password", {"current_password": NEW, "password": PASSWORD}, headers=bearer)
    assert again.status == 200 and named.get("/me", headers=bearer).status == 200, "the token that has changed it goes on"


# --- the address ----------------------------------------------------------------------------------------------------------------------------


def test_an_address_is_changed_when_the_new_one_is_confirmed(verified: Site) -> None:
    username = member(verified)
    verified.can_log_in(ADDRESS)
    assert verified.post("/email", {"email": "New@example.org"}).status == 202
    assert verified.mails[-1].to == "new@example.org"
    assert username not in verified.mails[-1].text  # whoever reads that may be somebody else, and a name may say anything
    code = verified.code()
    assert verified.can_log_in(ADDRESS) and not verified.can_log_in("new@example.org")
    assert verified.post("/confirm", {"code": code}, user=None).json["username"] == username
    assert verified.accounts.user_by_address(ADDRESS) is None
    assert verified.can_log_in("new@example.org")
    assert (verified.mails[-1].to, verified.mails[-1].subject) == (ADDRESS, "Your address was changed")
    assert verified.users == [username]


def test_an_address_needs_a_login(verified: Site) -> None:
    assert verified.post("/email", {"email": ADDRESS}).status == 401
    assert verified.mails == []


# --- the own account --------------------------------------------------------------------------------------------------------------------------


def test_who_am_i(named: Site) -> None:
    assert named.get("/me").status == 401
    named.sign_up(username="ann", name="Ann")
    named.can_log_in("ann")
    found = named.get("/me").json
    assert (found["username"], found["role"], found["record"]["name"]) == ("ann", "member", "Ann")
    assert found["rights"] == {"data": {"Note": {"read": True, "insert": True, "update": True, "delete": False}}}


def test_rules_on_rows_that_narrow_what_a_member_may_do(tmp_path: Path) -> None:
    schema = SCHEMA.replace(
        "type Note @table @export {",
        """type Note @table @export
             @allow(read: "owner==$user.username|text==public", update: "owner==$user.username")
             @allow(roles: ["member"], read: "owner==$user.username")
             @allow(roles: ["member"], read: "text==public", create: "owner==$user.username")
             @allow(roles: ["editor"], read: "true") {""",
    )
    roles = f"{ROLES}editor:\n  data:\n    Note: {{read: true}}\n"
    with open_site(tmp_path / "site", f"{{role: member, {URL}}}", schema=schema, roles=roles) as site:
        rights = site.sign_up(username="ann").json["rights"]["data"]
        assert rights["Note"]["rows"] == {"read": ["owner==$user.username", "text==public"], "create": ["owner==$user.username"]}
        assert rights["Note"]["read"] is True
        site.application.operation("add_user", username="bob", password=PASSWORD, role="editor", active=True)
        site.can_log_in("bob")
        assert site.get("/me").json["rights"]["data"]["Note"]["rows"] == {"read": ["true"]}
        assert all("rows" not in table for table in site.application.get("/accounts/me").json["rights"]["data"].values())  # of a super user


def test_the_own_record_is_changed(named: Site) -> None:
    named.sign_up(username="ann", name="Ann")
    named.can_log_in("ann")
    patch = named.application.patch
    assert patch("/accounts/me", {"name": "Annie", "born": 1990}, user=None).json["record"]["name"] == "Annie"
    for fields in ({"username": "eve"}, {"role": "super_user"}, {"active": True}, {"email": "x@example.org"}, {"password": NEW}, {"x": 1}):
        assert patch("/accounts/me", fields, user=None).json["code"] == "VALIDATION", fields
    assert patch("/accounts/me", {"born": "x"}, user=None).status == 400
    assert patch("/accounts/me", {}, user=None).status == 200
    record = named.get("/me").json["record"]
    assert record["born"] == 1990
    assert patch("/accounts/me", {**record, "name": "Ann"}, user=None).json["record"] == {**record, "name": "Ann"}, (
        "what GET has told may come back"
    )


def test_the_own_account_is_removed_with_its_record(named: Site) -> None:
    named.sign_up(username="ann")
    named.sign_up(username="bob")
    named.can_log_in("ann")
    answer = named.application.delete("/accounts/me", user=None)
    assert answer.status == 204
    assert named.users == named.records == ["bob"]
    assert named.get("/me").status == 401
    assert "Expires=Thu, 01 Jan 1970" in answer.headers["Set-Cookie"]


def test_an_operator_is_no_member(named: Site) -> None:
    assert named.application.get("/accounts/me").json["record"] is None
    assert named.application.delete("/accounts/me").status == 403
    assert named.application.patch("/accounts/me", {}).status == 403
    assert named.application.post("/accounts/password", {"current_password": "x", "password": NEW}).status == 403


def test_drop_user_removes_the_record(named: Site) -> None:
    named.sign_up(username="ann")
    assert named.application.operation("drop_user", username="ann") == {"message": "ann successfully deleted"}
    assert named.users == named.records == []


def test_a_user_with_a_record_is_not_deleted_alone(named: Site) -> None:
    named.sign_up(username="ann")
    with pytest.raises(Exception, match="remove both with drop_user"):
        named.application.operation("delete", database="system", table="svc_user", ids=["ann"])
    assert named.users == named.records == ["ann"]


def test_a_record_that_others_must_refer_to_keeps_the_account(tmp_path: Path) -> None:
    schema = (
        SCHEMA + "type Bill @table { id: ID @primaryKey  payer: ID @indexed  by: Person @relationship(from: payer, onDelete: restrict) }\n"
    )
    with open_site(tmp_path / "site", "{role: member}", schema=schema) as site:
        site.sign_up(username="ann")
        site.can_log_in("ann")
        site.application.tables.Bill.put("1", {"payer": "ann"})
        answer = site.application.delete("/accounts/me", user=None)
        assert (answer.status, answer.json["code"]) == (409, "STILL_REFERENCED")
        assert site.users == site.records == ["ann"]
        site.application.tables.Bill.delete("1")
        assert site.application.delete("/accounts/me", user=None).status == 204
        site.check()


def test_a_record_that_very_many_refer_to_goes_with_them(tmp_path: Path) -> None:
    schema = (
        SCHEMA + "type Bill @table { id: ID @primaryKey  payer: ID @indexed  by: Person @relationship(from: payer, onDelete: cascade) }\n"
    )
    with open_site(tmp_path / "site", "{role: member}", schema=schema) as site:
        site.sign_up(username="ann")
        site.can_log_in("ann")
        site.application.operation("insert", table="Bill", records=[{"id": str(number), "payer": "ann"} for number in range(700)])
        assert site.application.delete("/accounts/me", user=None).status == 204
        assert site.application.tables.Bill.search({}) == []
        site.check()


def test_pages_of_foreign_origins_can_do_nothing(verified: Site) -> None:
    headers = {"Origin": "https://evil.example"}
    for path, body in (("", {"email": ADDRESS, "password": PASSWORD}), ("/forgot", {"email": ADDRESS}), ("/email", {"email": ADDRESS})):
        assert verified.post(path, body, headers=headers).status in (401, 403)
    assert verified.mails == []
    member(verified)
    verified.can_log_in(ADDRESS)
    assert verified.get("/me").status == 200
    assert verified.get("/me", headers=headers).status == 401
    assert verified.application.delete("/accounts/me", user=None, headers=headers).status == 401


def test_a_super_user_gets_no_code(verified: Site) -> None:
    username = member(verified)
    verified.application.operation("alter_user", username=username, role="super_user")
    count = len(verified.mails)
    assert verified.post("/forgot", {"email": ADDRESS}).status == 202
    assert len(verified.mails) == count
    verified.application.operation("alter_user", username=username, role="member")


def test_rules_about_rows_apply_to_the_own_record(tmp_path: Path) -> None:
    schema = SCHEMA.replace("@account", '@account @allow(update: "username==$user.username&$new.karma==$old.karma", delete: "false")')
    with open_site(tmp_path / "site", "{role: member}", schema=schema) as site:
        site.sign_up(username="ann", karma=1)
        site.can_log_in("ann")
        patch = site.application.patch
        assert patch("/accounts/me", {"name": "Ann"}, user=None).status == 200
        refused = patch("/accounts/me", {"karma": 100}, user=None)
        assert (refused.status, refused.json["code"]) == (403, "ROW_NOT_ALLOWED")
        assert site.get("/me").json["record"]["karma"] == 1
        assert site.application.delete("/accounts/me", user=None).status == 204
        site.check()


def test_networks_are_limited(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", f"{{role: member, identity: email, {URL}, limits: {{signUps: 3}}}}") as site:
        for path in ("", "/forgot"):
            answers = [
                site.post(path, {"email": f"a{number}@example.org", "password": PASSWORD} if not path else {"email": ADDRESS})
                for number in range(4)
            ]
            assert [answer.status for answer in answers] == [202, 202, 202, 429]
            assert (answers[3].json["code"], answers[3].headers["Retry-After"]) == ("TOO_MANY_REQUESTS", "1201")
        site.application.clock.advance(1201)
        assert site.sign_up(email=ADDRESS).status == 202


def test_what_waits_for_a_confirmation_is_small(verified: Site) -> None:
    assert verified.sign_up(email=ADDRESS, name="x" * 20_000).status == 413
    assert verified.mails == []
