"""Sessions: listed, ended (spec: console §10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.people import LONGEST_NAME, address, listed, name_in
from svc.console.texts import iso_of
from svc.errors import NotFound, Problem
from svc.messages import Response
from svc.operations.sessions import MOST
from svc.pages.cells import shortened


async def show(page: ConsolePage) -> Response:
    handle, username = name_in(page), page.fields.get("username", "")
    if handle is not None:
        return await _confirm_one(page, handle)
    return await (_confirm_all(page, username) if username and page.fields.get("do") == "end" else _list(page, username))


async def send(page: ConsolePage) -> Response:
    handle, username = name_in(page), page.fields.get("username", "")
    if handle is None:
        try:
            answer = await page.run("end_sessions", username=username)
        except Problem as fault:
            return await _confirm_all(page, username, fault)
    else:
        try:
            answer = await page.run("end_session", session=handle)
        except Problem as fault:
            return await _confirm_one(page, handle, fault)
    return page.see_other("sessions", note=answer["message"])


async def _list(page: ConsolePage, username: str) -> Response:
    fields = {"username": username} if username else {}
    sessions = await page.run_in_session("list_sessions", limit=MOST, **fields)
    found = listed(page, sessions, "sessions", **fields)
    may_end = page.may("end_session")
    found.rows = [_row(page, each, may_end) for each in found.rows]
    end_all = page.at("sessions", username=username, do="end") if username and page.may("end_sessions") else ""
    return await page.show("sessions.html", found=found, username=username, end_all=end_all, is_cut=len(sessions) == MOST)


def _row(page: ConsolePage, each: Mapping[str, Any], may_end: bool) -> dict[str, Any]:
    name = each["username"]
    return {
        "shown": each["session"].partition("-")[0],
        "name": shortened(name, LONGEST_NAME),
        "href": page.at("sessions", username=name),
        "since": iso_of(each["since"]),
        "renewed": iso_of(each["renewed"]),
        "expires": iso_of(each["expires"]),
        "is_own": each["is_own"],
        "end": address(page, "sessions", each["session"]) if may_end else "",
    }


async def _confirm_one(page: ConsolePage, handle: str, fault: Problem | None = None) -> Response:
    page.require("end_session")
    each = next((each for each in await page.run_in_session("list_sessions", limit=MOST) if each["session"] == handle), None)
    if each is None and fault is None:
        raise NotFound(f"Session {shortened(handle, 100)} does not exist, or has ended")
    sentences = ["Its cookie counts for nothing from the next request on; what streams to it ends."]
    if each is not None:
        begun = f", began {iso_of(each['since'])}" if each["since"] else ""
        sentences.insert(0, f"It is a session of {shortened(each['username'], 100)}{begun}.")
        if each["is_own"]:
            sentences.append("It is your own: you are logged out.")
    return await ask(
        page, Question(f"End the session {handle.partition('-')[0]}?", sentences, "End the session", page.at("sessions")), fault
    )


async def _confirm_all(page: ConsolePage, username: str, fault: Problem | None = None) -> Response:
    page.require("end_sessions")
    sentences = ["The tokens of the user end with them. The password and the API keys stay."]
    if username == page.user.username:
        sentences.append("It is you: you are logged out.")
    return await ask(
        page, Question(f"End all sessions of {username}?", sentences, "End all sessions and tokens", page.at("sessions")), fault
    )
