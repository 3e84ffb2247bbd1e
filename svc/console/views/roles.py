"""Roles: listed, added, copied, dropped, and one of them as a matrix or as JSON (spec: console §11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from svc.auth.roles import rights
from svc.auth.users import ANONYMOUS
from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.people import LONGEST_NAME, address, listed, name_in
from svc.console.role_json import read_json, written_json
from svc.console.role_matrix import (
    MOST_ATTRIBUTES,
    MOST_INLINE,
    Definitions,
    Place,
    TableRow,
    applied,
    databases_of,
    differences,
    field_name,
    fingerprint,
    has_rights,
    places_of,
    shown_field,
    table_rows,
)
from svc.console.texts import iso_of, plural
from svc.errors import ClientError, NotFound, Problem, Refusal
from svc.messages import Response
from svc.operations.grants import file_of
from svc.operations.operation import CATEGORIES
from svc.operations.operation_lists import GROUPS
from svc.operations.registry import all_operations
from svc.operations.threads import in_thread
from svc.pages.cells import shortened
from svc.store.system import SYSTEM

MOST_DATABASES = 200  # among which `structure_user` lets choose
MOST_OTHERS = 200  # operations that a list names and that there are not
_LONGEST_LINE = 500
CHANGED = Problem("Somebody else has changed this role since the page was loaded. Nothing was saved", 409, "CONFLICT")


async def show(page: ConsolePage) -> Response:
    name, wanted = name_in(page), page.fields.get("do")
    if name is None:
        return await (_new(page, None) if wanted == "add" else _list(page))
    role = await _find(page, name)
    if wanted == "copy":
        return await _new(page, role)
    if wanted == "drop":
        return await _confirm_drop(page, role)
    if wanted == "json":
        return await _json(page, role)
    return await _matrix(page, role)


async def send(page: ConsolePage) -> Response:
    name, wanted, form = name_in(page), page.fields.get("do"), page.form
    assert form is not None
    if name is None or wanted == "copy":
        return await _add(page, None if name is None else await _find(page, name))
    role = await _find(page, name)
    if form.text("action") == "confirm":
        try:
            await page.run("drop_role", id=role["id"])
        except Problem as fault:
            return await _confirm_drop(page, role, fault)
        return page.see_other("roles", note=f"The role {shortened(name, 100)} was dropped")
    return await (_save_json(page, role) if wanted == "json" else _save_matrix(page, role))


async def _find(page: ConsolePage, name: str) -> dict[str, Any]:
    """A role by its name, or by its id where it has no other name. Raises NotFound."""
    roles = await page.run("list_roles")
    for key in ("role", "id"):
        for role in roles:
            if role.get(key) == name:
                found: dict[str, Any] = role
                return found
    raise NotFound(f"There is no role {name}")


async def _seen(role: Mapping[str, Any]) -> str:
    """Its fingerprint; made in a thread, for a role may name tens of thousands of attributes."""
    return await in_thread(lambda: fingerprint(role))


def _name(role: Mapping[str, Any]) -> str:
    return str(role.get("role") or role["id"])


def _permission(role: Mapping[str, Any]) -> dict[str, Any]:
    permission = role.get("permission")
    return permission if isinstance(permission, dict) else {}


# --- the list, new ones, the end ----------------------------------------------------------------------------------------------------------


async def _list(page: ConsolePage) -> Response:
    roles, users = await page.run("list_roles"), Counter[str]()
    may_count = page.may("list_users")
    if may_count:
        users.update(user["role"]["id"] for user in await page.run("list_users") if user["role"] is not None)
    found = listed(page, roles, "roles")
    found.rows = [
        {
            "name": shortened(_name(role), LONGEST_NAME),
            "href": address(page, "roles", _name(role)),
            "users": plural(users[role["id"]], "user"),
            "users_href": page.at("users", role=_name(role)),
            "what": shortened(_what(role), 300),
            "changed": iso_of(role.get("__updatedtime__")),
        }
        for role in found.rows
    ]
    add = page.at("roles", do="add") if page.may("add_role") else ""
    return await page.show("roles.html", found=found, add=add, has_users=may_count)


def _what(role: Mapping[str, Any]) -> str:
    """What a role may do, in a line."""
    permission = _permission(role)
    if permission.get("super_user") is True:
        return "everything"
    parts = [plural(sum(has_rights(permission, place) for place in places_of(permission)), "table")]
    structure = permission.get("structure_user")
    if structure is True:
        parts.append("structure of all databases")
    elif isinstance(structure, list) and structure:
        parts.append(f"structure of {plural(len(structure), 'database')}")
    if isinstance(permission.get("operations"), list):
        parts.append(f"only {plural(len(permission['operations']), 'listed operation')}")
    return ", ".join(parts)


async def _new(page: ConsolePage, source: Mapping[str, Any] | None, fault: Problem | None = None) -> Response:
    page.require("add_role")
    title = "Add a role" if source is None else f"Copy the role {shortened(_name(source), LONGEST_NAME)}"
    name = "" if page.form is None else page.form.text("role")
    return await page.show("role_add.html", title=title, fault=fault, name=name, is_copy=source is not None, back=page.at("roles"))


async def _add(page: ConsolePage, source: Mapping[str, Any] | None) -> Response:
    assert page.form is not None
    name = page.form.text("role")
    fields = {"permission": {} if source is None else _permission(source)}
    if source is not None and source.get("access") is not None:
        fields["access"] = source["access"]
    try:
        await page.run("add_role", role=name, **fields)
    except Problem as fault:
        return await _new(page, source, fault)
    return page.see_other(f"roles/{name}", note=f"The role {name} was added")  # a name that was taken has nothing to be encoded


async def _confirm_drop(page: ConsolePage, role: Mapping[str, Any], fault: Problem | None = None) -> Response:
    page.require("drop_role")
    sentences = ["A role of active users, or of API keys that count, is not dropped: give them another one first."]
    if page.may("list_users"):
        users = sum(user["role"] is not None and user["role"]["id"] == role["id"] for user in await page.run("list_users"))
        sentences.insert(0, f"{plural(users, 'user')} {'has' if users == 1 else 'have'} this role.")
    back = address(page, "roles", _name(role))
    return await ask(page, Question(f"Drop the role {_name(role)}?", sentences, "Drop the role", back, fields={"action": "confirm"}), fault)


# --- the matrix ---------------------------------------------------------------------------------------------------------------------------


def _definitions(page: ConsolePage, named: set[Place]) -> Definitions:
    """The tables that the caller may know of, and those that the role names."""
    found = {}
    for database in page.node.store.databases.values():
        if database.name != SYSTEM:
            for table in database.tables.values():
                place = database.name, table.name
                if page.user.super_user or place in named or rights(page.user, table).any:
                    found[place] = table.definition
    return found


def _place_in(page: ConsolePage) -> Place | None:
    """The table that an address is about."""
    names = page.rest[1:3] if len(page.rest) > 1 else [page.fields.get("database", ""), page.fields.get("table", "")]
    return (names[0], names[1]) if len(names) == 2 and names[0] and names[1] else None


def _table_address(page: ConsolePage, role: str, place: Place) -> str:
    if {role, *place} & {".", ".."}:
        return page.at("roles/", name=role, database=place[0], table=place[1])
    return address(page, "roles", role, *place)


def _kept_fields(page: ConsolePage) -> dict[str, str]:
    return {name: page.fields[name] for name in ("search", "given") if page.fields.get(name)}


async def _matrix(
    page: ConsolePage,
    role: Mapping[str, Any],
    wanted: dict[str, Any] | None = None,
    fault: Problem | None = None,
    faults: Mapping[Place, str] | None = None,
    changes: list[str] | None = None,
) -> Response:
    """`wanted`: the permission that a form asked for, and that was refused. `faults`: of the form, by table. `changes`: what saving it would change."""
    name, permission = _name(role), _permission(role) if wanted is None else wanted
    named = {*places_of(permission), *places_of(_permission(role))}
    definitions = _definitions(page, named)
    place = _place_in(page)
    if place is not None:
        if place not in definitions:
            raise NotFound(f"There is no table {place[0]}.{place[1]}")
        places, found = [place], None
        rows = table_rows(permission, name, places, definitions, MOST_ATTRIBUTES)
    else:
        chosen = _chosen_places(page, permission, definitions, named)
        found = listed(page, chosen, address(page, "roles", name)[len(page.root) :], **_kept_fields(page))
        rows = table_rows(permission, name, found.rows, definitions, MOST_INLINE)
    _add_faults(rows, fault, faults or {})
    is_super = permission.get("super_user") is True
    part = place is None and not page.fields.get("page")
    structure = _structure(page, permission) if part else None
    operations = _operations(permission) if part else None
    values: dict[str, Any] = {
        "name": name,
        "role_name": name if page.form is None else page.form.text("role_name") or name,
        "back": address(page, "roles", name),
        "is_super": is_super,
        "is_anonymous": name == ANONYMOUS,
        "file": file_of(page.node, name),
        "may_alter": page.may("alter_role"),
        "rows": [_shown_row(page, name, row) for row in rows],
        "found": found,
        "one": place,
        "search": page.fields.get("search", ""),
        "given": bool(page.fields.get("given")),
        "gone": [each for each in databases_of(permission) if each not in page.node.store.databases or each == SYSTEM],
        "shown": shown_field(
            rows,
            None if structure is None else [each["name"] for each in structure],
            None if operations is None else _names(operations),
        ),
        "seen": await _seen(role),
        "structure": structure,
        "structure_kind": _structure_kind(permission),
        "operations": operations,
        "chosen": [each["name"] for _, names in operations or () for each in names if each["is_chosen"]][:20],
        "has_operations": isinstance(permission.get("operations"), list),
        "changes": [shortened(line, _LONGEST_LINE) for line in changes or ()],
        "faulty": _sentences(fault, rows),
        "links": _links(page, name),
        "most": MOST_ATTRIBUTES,
        "cell": field_name,
    }
    title = name if place is None else f"{name}: {place[0]}.{place[1]}"
    return await page.show("role.html", title=shortened(title, LONGEST_NAME * 2), fault=fault, **values)


def _chosen_places(page: ConsolePage, permission: Mapping[str, Any], definitions: Definitions, named: set[Place]) -> list[Place]:
    """The tables of the matrix, in order: those that are searched for."""
    search, given = page.fields.get("search", "").casefold(), bool(page.fields.get("given"))
    exists = page.node.store.databases
    places = {*definitions, *(place for place in named if place[0] in exists and place[0] != SYSTEM)}
    return sorted(
        place
        for place in places
        if (not search or search in f"{place[0]}.{place[1]}".casefold()) and (not given or place in named or has_rights(permission, place))
    )


def _shown_row(page: ConsolePage, role: str, row: TableRow) -> dict[str, Any]:
    return {
        "database": shortened(row.database, LONGEST_NAME),
        "table": shortened(row.name, LONGEST_NAME),
        "label": shortened(f"{row.database}.{row.name}", LONGEST_NAME),
        "row": row,
        "href": _table_address(page, role, (row.database, row.name)),
        "faults": [shortened(text, _LONGEST_LINE) for text in row.faults],
    }


def _links(page: ConsolePage, name: str) -> list[tuple[str, str]]:
    found = [("JSON", "json", "list_roles"), ("Copy", "copy", "add_role"), ("Drop", "drop", "drop_role")]
    return [("Users", page.at("users", role=name))] * page.may("list_users") + [
        (text, address(page, "roles", name, do=do)) for text, do, operation in found if page.may(operation)
    ]


def _structure_kind(permission: Mapping[str, Any]) -> str:
    structure = permission.get("structure_user")
    return "all" if structure is True else "some" if isinstance(structure, list) else "none"


def _structure(page: ConsolePage, permission: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The databases of which a role may have the structure."""
    given = permission.get("structure_user")
    chosen = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    own = page.user.role
    known = [
        name
        for name, database in sorted(page.node.store.databases.items())
        if name != SYSTEM and (page.user.super_user or (own is not None and any(own.rights(name, table).any for table in database.tables)))
    ]
    names = list(dict.fromkeys([*chosen, *known]))[:MOST_DATABASES]
    return [{"name": name, "is_chosen": name in chosen, "exists": name in page.node.store.databases} for name in names]


def _operations(permission: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By group, the operations that a list may hold; then others that this one holds."""
    given = permission.get("operations")
    listed_names = dict.fromkeys(name for name in given if isinstance(name, str)) if isinstance(given, list) else {}
    groups: dict[str, list[str]] = {"Groups": list(GROUPS)}
    for row in all_operations():
        if row.permission.grantable and row.permission.kind != "none":
            groups.setdefault(CATEGORIES[row.category], []).append(row.name)
    known = {name for names in groups.values() for name in names}
    groups["Others in the list"] = [name for name in listed_names if name not in known][:MOST_OTHERS]
    return [(title, [{"name": name, "is_chosen": name in listed_names} for name in names]) for title, names in groups.items() if names]


def _names(operations: list[tuple[str, list[dict[str, Any]]]]) -> list[str]:
    return [each["name"] for _, names in operations for each in names]


def _add_faults(rows: list[TableRow], fault: Problem | None, faults: Mapping[Place, str]) -> None:
    """Put what `alter_role` or the form says of a table at its row."""
    body = fault.body if isinstance(fault, Refusal) else {}
    by_table, main = body.get("schema_permissions"), body.get("main_permissions")
    for row in rows:
        if isinstance(by_table, dict):
            row.faults += by_table.get(f"{row.database}_{row.name}", [])
        if isinstance(main, list) and f"Table '{row.database}.{row.name}' does not exist" in main:
            row.faults.append("This table does not exist: remove it from the role, or make the table")
        if (row.database, row.name) in faults:
            row.faults.append(faults[row.database, row.name])


def _sentences(fault: Problem | None, rows: list[TableRow]) -> list[str]:
    """What `alter_role` says and no row shows."""
    if not isinstance(fault, Refusal):
        return []
    body = fault.body
    main, by_table = body.get("main_permissions"), body.get("schema_permissions")
    at_rows = {f"Table '{row.database}.{row.name}' does not exist" for row in rows}
    found = [str(text) for text in main if text not in at_rows] if isinstance(main, list) else []
    shown = {f"{row.database}_{row.name}" for row in rows}
    if isinstance(by_table, dict):
        found += [f"{key}: {text}" for key, texts in by_table.items() if key not in shown for text in texts]
    return [shortened(text, _LONGEST_LINE) for text in found[:MOST_OTHERS]]


async def _save_matrix(page: ConsolePage, role: Mapping[str, Any]) -> Response:
    form, name = page.form, _name(role)
    assert form is not None
    permission, faults = applied(_permission(role), form.fields)
    if form.text("seen") != await _seen(role):
        return await _matrix(page, role, permission, CHANGED, changes=differences(_permission(role), permission) or ["nothing"])
    if faults.by_place:
        return await _matrix(page, role, permission, ClientError("The form cannot be saved so"), faults.by_place)
    new_name = form.text("role_name").strip()
    changes = {"role": new_name} if new_name and new_name != name else {}
    try:
        await page.run("alter_role", id=role["id"], permission=permission, **changes)
    except Problem as fault:
        return await _matrix(page, role, permission, fault)
    return _saved(page, changes.get("role", name))


def _saved(page: ConsolePage, name: str, **fields: str) -> Response:
    """Back to the page that was sent."""
    place = _place_in(page)
    path = (address(page, "roles", name) if place is None else _table_address(page, name, place))[len(page.root) :]
    path, _, query = path.partition("?")
    given = dict(parse_qsl(query))
    if number := page.fields.get("page"):
        fields["page"] = number
    return page.see_other(path, note=f"The role {shortened(name, 100)} was saved", **_kept_fields(page), **given, **fields)


# --- as JSON ------------------------------------------------------------------------------------------------------------------------------


async def _json(
    page: ConsolePage, role: Mapping[str, Any], fault: Problem | None = None, position: str = "", changes: list[str] | None = None
) -> Response:
    form, name = page.form, _name(role)
    permission = await written_json(page, role.get("permission")) if form is None else form.text("permission")
    access = await written_json(page, role.get("access")) if form is None else form.text("access")
    return await page.show(
        "role_json.html",
        title=f"{shortened(name, LONGEST_NAME)} as JSON",
        fault=fault,
        position=position,
        permission=permission,
        access=access,
        seen=await _seen(role),
        may_alter=page.may("alter_role"),
        faulty=_sentences(fault, []),
        changes=[shortened(line, _LONGEST_LINE) for line in changes or ()],
        back=address(page, "roles", name),
    )


async def _save_json(page: ConsolePage, role: Mapping[str, Any]) -> Response:
    form = page.form
    assert form is not None
    read: dict[str, Any] = {}
    for name in ("permission", "access"):
        if name == "access" and not form.text(name).strip():
            continue
        try:
            read[name] = await read_json(page, form.text(name))
        except ClientError as fault:
            return await _json(page, role, ClientError(f"{name}: {fault.message}"), name)
    permission = read["permission"]
    if form.text("seen") != await _seen(role):
        changes = differences(_permission(role), permission) if isinstance(permission, dict) else ["nothing that can be saved"]
        return await _json(page, role, CHANGED, changes=changes or ["nothing"])
    if read.get("access") == role.get("access"):
        read.pop("access", None)
    try:
        await page.run("alter_role", id=role["id"], **read)
    except Problem as fault:
        return await _json(page, role, fault, "permission")
    return _saved(page, _name(role), do="json")
