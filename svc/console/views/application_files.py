"""The page of an application: its files, one of them to be edited, new ones (spec: console §12)."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote_plus

from svc.console.applications import address_of, attachment, components, deployments_of, restart_reasons, state_of
from svc.console.edited_text import LF, MIXED, EditedText, difference, edited_text, has_unseen, with_ends, with_feeds
from svc.console.page import ConsolePage
from svc.console.wrong import at_fields
from svc.deploying.files import too_large
from svc.errors import ClientError, MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.operations.threads import in_thread
from svc.pages.cells import shortened, size_text
from svc.pages.sent_form import SentForm

MOST_FILES = 1000  # of one directory


async def show(page: ConsolePage, name: str, rest: list[str]) -> Response:
    file = page.fields.get("file", "")
    if rest == ["content"]:
        return attachment(file.rpartition("/")[2], "application/octet-stream", await _content(page, name, file))
    if rest:
        raise NotFound("There is no such page")
    if not file:
        return await _directory(page, name)
    is_new = page.fields.get("new") == "true"
    try:
        found = await _opened(page, name, file)
    except Problem as fault:
        if not is_new or fault.status_code != 404:
            return await _directory(page, name, fault)
        page.require("set_component_file")
        found = EditedText("", LF, "", 0)
    return await _editor(page, name, file, found)


async def send(page: ConsolePage, form: SentForm, name: str, rest: list[str]) -> Response:
    if rest:
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    file = page.fields.get("file", "")
    if file:
        return await _save(page, form, name, file)
    file = form.text("file").strip()
    try:
        if form.text("do") == "directory":
            answer = await page.run("set_component_file", project=name, file=file)
        else:
            sent = form.files.get("content")
            if sent is None:
                raise ClientError("'content' is missing: choose a file")
            limit = page.node.config.operations_api.component_file.max_size
            if sent.size is not None and sent.size > limit:  # it would be decoded before it is refused
                raise too_large(name, file, limit)
            payload = await in_thread(lambda: base64.b64encode(sent.read()).decode())
            answer = await page.run("set_component_file", project=name, file=file, payload=payload, encoding="base64")
    except Problem as fault:
        return await _directory(page, name, fault)
    return page.see_other(address_of(name), note=answer["message"], dir=_cleaned(page.fields.get("dir", "")))


async def _content(page: ConsolePage, name: str, file: str) -> bytes:
    answer = await page.run("get_component_file", project=name, file=file, encoding="base64")
    return await in_thread(lambda: base64.b64decode(answer["message"]))


async def _opened(page: ConsolePage, name: str, file: str) -> EditedText:
    content = await _content(page, name, file)
    return await in_thread(lambda: edited_text(content))


# --- a directory -------------------------------------------------------------------------------------------------------------------------


def _cleaned(path: str) -> str:
    """A path of a directory without what stands around it."""
    return "/".join(part for part in path.split("/") if part)


async def _directory(page: ConsolePage, name: str, fault: Problem | None = None) -> Response:
    directory = _cleaned(page.fields.get("dir", ""))
    component = next((each for each in await components(page) if each["name"] == name), None)
    if component is None:
        raise fault or NotFound(f"There is no application '{shortened(name, 100)}'")
    entries: Any = component["entries"]
    for part in directory.split("/") if directory else ():
        entries = next((each["entries"] for each in entries if each["name"] == part and "entries" in each), None)
        if entries is None:
            raise fault or NotFound(f"There is no directory '{shortened(directory, 300)}' in {shortened(name, 100)}")
    path, prefix = address_of(name), f"{directory}/" if directory else ""
    base, may_drop = page.at(path), page.may("drop_component")
    rows = [
        {
            "name": shortened(each["name"], 260),
            "is_directory": "entries" in each,
            "href": f"{base}?{'dir' if 'entries' in each else 'file'}={quote_plus(prefix + each['name'])}",
            "size": "" if "entries" in each else size_text(each["size"]),
            "changed": each["mtime"],
            "drop": f"{base}/drop?file={quote_plus(prefix + each['name'])}" if may_drop else "",
        }
        for each in sorted(entries, key=lambda each: ("entries" not in each, each["name"]))[:MOST_FILES]
    ]
    steps = directory.split("/") if directory else []
    return await page.show(
        "application.html",
        title=shortened(name, 100),
        fault=fault,
        wrong=at_fields(fault, ("content",), "file"),
        base=base,
        state=state_of(component),
        package=shortened(component.get("package", ""), 300),
        rows=rows,
        more=max(len(entries) - MOST_FILES, 0),
        prefix=prefix,
        typed="" if page.form is None else page.form.text("file"),
        steps=[(shortened(step, 260), page.at(path, dir="/".join(steps[: index + 1]))) for index, step in enumerate(steps)],
        reasons=await restart_reasons(page),
        deployments=await deployments_of(page, name),
        may_write=page.may("set_component_file"),
        may_deploy=page.may("deploy_component"),
        may_pack=page.may("package_component"),
        may_drop=may_drop,
    )


# --- a file ------------------------------------------------------------------------------------------------------------------------------


async def _editor(
    page: ConsolePage,
    name: str,
    file: str,
    found: EditedText,
    *,
    typed: str | None = None,
    fault: Problem | None = None,
    differences: list[tuple[str, str]] | None = None,
) -> Response:
    """`found`: as it is now. `typed`: what was sent instead. `differences`: between the two, if somebody has changed the file."""
    text = found.text if typed is None else typed
    path = address_of(name)
    parent = file.rpartition("/")[0]
    return await page.show(
        "application_file.html",
        title=shortened(file, 300),
        fault=fault,
        wrong=at_fields(fault, (), "text"),
        name=shortened(name, 100),
        back=page.at(path, dir=parent),
        file=found,
        text=text,
        is_new=found.version == "",
        is_mixed=found.ends == MIXED,
        size=size_text(found.size),
        has_unseen=text is not None and await has_unseen(text),
        differences=differences,
        content="" if found.version == "" else page.at(f"{path}/content", file=file),
        reasons=await restart_reasons(page),
        drop=page.at(f"{path}/drop", file=file) if found.version and page.may("drop_component") else "",
        may_write=page.may("set_component_file"),
    )


async def _save(page: ConsolePage, form: SentForm, name: str, file: str) -> Response:
    typed = with_feeds(form.text("text"))
    found = EditedText("", LF, "", 0)
    try:
        try:
            found = await _opened(page, name, file)
        except NotFound:
            pass  # a new one, or one that was removed meanwhile
        if found.text is None:
            raise ClientError("The file is no text that can be edited here", 409)
        if found.version != form.text("version"):
            before = found.text
            differences = await in_thread(lambda: difference(before, typed))
            changed = "was removed" if found.version == "" else "was changed" if form.text("version") else "was made"
            fault = ClientError(f"The file {changed} by somebody else since it was opened here. Nothing is written yet", 409)
            return await _editor(page, name, file, found, typed=typed, fault=fault, differences=differences)
        if typed == found.text and found.version:
            return page.see_other(address_of(name), note="Nothing was changed", file=file)
        answer = await page.run("set_component_file", project=name, file=file, payload=with_ends(typed, found.ends))
    except Problem as fault:
        return await _editor(page, name, file, found, typed=typed, fault=fault)
    return page.see_other(address_of(name), note=answer["message"], file=file)
