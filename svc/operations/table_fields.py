"""What `create_table` takes, as the definition of a table (spec: operations §2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from svc.errors import ClientError, Problem, ValidationError
from svc.operations.call import Call
from svc.operations.fields import Field, attribute_name_fault
from svc.query.rule_faults import RuleFault, rule_faults
from svc.query.rule_form import read_allow
from svc.store import Table
from svc.store.schema import SCALAR_TYPES, Allow, Attribute, TableDefinition, may_be_key
from svc.store.values.conversion import is_encodable

RESIDENCE_TEXT = "Clustering does not appear to be enabled. Cannot insert table with property 'residence'."
DEFAULT_KEY = "id"
MAX_RULES = 4096  # characters of all rules of a call, which are checked at once: some 5 ms
_FLAGS = ("indexed", "is_primary_key", "isPrimaryKey", "nullable")


def _positive(value: Any, field: Field) -> str | None:
    return None if value > 0 else "must be greater than 0"


CREATE_FIELDS = (
    Field("primary_key", "name", "Attribute that is the primary key; default `id`.", aliases=("hash_attribute",)),
    Field(
        "attributes",
        "objects",
        "Attributes: `{name, type, elements, indexed, is_primary_key, nullable}`. `type` is one of "
        f"{', '.join(SCALAR_TYPES)}, default Any; `elements` instead makes it a list of that type.",
    ),
    Field("expiration", "number", "Seconds after which records expire.", check=_positive),
    Field("audit", "bool", "Whether the log keeps what records were before they were changed; default as configured."),
    Field(
        "allow",
        "objects",
        "Rules about rows: `{roles, read, create, update, delete}`, as `@allow` of a schema has them. Attributes that they name have to be listed.",
    ),
    Field("residence", "any", "Of older servers; refused."),
)

_TIMES = (
    Attribute("__createdtime__", indexed=True, created_time=True),
    Attribute("__updatedtime__", indexed=True, updated_time=True),
)


def new_definition(call: Call) -> TableDefinition:
    """Raises ClientError with everything that is wrong with the attributes."""
    if call["residence"] is not None:
        raise ClientError(RESIDENCE_TEXT)
    listed = call["attributes"]
    primary_key = call["primary_key"]
    if listed is None:
        primary_key = primary_key or DEFAULT_KEY
        if primary_key in ("__createdtime__", "__updatedtime__"):
            raise ValidationError(f"'primary_key' cannot be {primary_key}")
        attributes: tuple[Attribute, ...] = (Attribute(primary_key, primary_key=True), *_TIMES)
    else:
        attributes = _attributes(listed, primary_key)
    definition = TableDefinition(
        call["table"],
        call["database"],
        type_name=call["table"],
        attributes=attributes,
        primary_key=next(attribute.name for attribute in attributes if attribute.primary_key),
        dynamic=listed is None,
        expiration=call["expiration"],
        audit=call["audit"],
        allow=_rules(call["allow"]),
    )
    if definition.allow:
        _check_rules(call, definition)
    return definition


def _rules(listed: list[Mapping[str, Any]] | None) -> tuple[Allow, ...]:
    """Raises ValidationError."""
    size = sum(len(str(part)) for entry in listed or () for part in entry.values())
    if size > MAX_RULES or len(listed or ()) > MAX_RULES:
        raise ValidationError(f"'allow' has at most {MAX_RULES} characters; what is longer belongs into a schema file")
    read = [read_allow(entry) for entry in listed or ()]
    faults = [f"'allow[{number}]'{message}" for number, (_, found) in enumerate(read) for _, message in found]
    if faults:
        raise ValidationError(faults)
    return tuple([rule for rule, _ in read])


def _check_rules(call: Call, definition: TableDefinition) -> None:
    """Raises ValidationError for rules that cannot be followed in the database as it is."""
    own = [fault for fault in _faults_with(call, definition, definition.database) if fault.table == definition.name]
    if own:
        raise ValidationError([f"'allow[{fault.number}].{fault.action}': {fault.message}" for fault in own])


def refuse_if_ruled(call: Call, table: Table, name: str) -> None:
    """Raise Problem 409 if a rule about rows could not be followed without an attribute: one of this table, one that goes through it, or one that names it as a
    value of the account's record."""
    attributes = tuple([attribute for attribute in table.definition.attributes if attribute.name != name])
    without = replace(table.definition, attributes=attributes)
    for database in list(call.node.store.databases.values()):
        if not any(other.definition.allow for other in list(database.tables.values())):
            continue
        known = {(fault.table, fault.number, fault.action) for fault in _faults_with(call, table.definition, database.name)}
        for fault in _faults_with(call, without, database.name):
            if (fault.table, fault.number, fault.action) not in known:
                raise Problem(
                    f"Attribute '{name}' is named by the rule of {database.name}.{fault.table} for {fault.action}: change the rule (allow) first",
                    409,
                    "CONFLICT",
                )


def _faults_with(call: Call, definition: TableDefinition, database: str) -> list[RuleFault]:
    """The faults of the rules of a database, if a table has this definition."""
    databases = {
        each.name: {table.name: table.definition for table in list(each.tables.values())}
        for each in list(call.node.store.databases.values())
    }
    databases.setdefault(definition.database, {})[definition.name] = definition
    accounts = [each for tables in databases.values() for each in tables.values() if each.account]
    found = rule_faults(databases.get(database, {}).values(), accounts[0] if accounts else None)
    return [fault for fault in found if not fault.is_warning]


def _attributes(listed: list[Mapping[str, Any]], primary_key: str | None) -> tuple[Attribute, ...]:
    """With exactly one key, the first of all if it had to be added."""
    faults = [fault for number, entry in enumerate(listed) for fault in _faults(entry, f"attributes[{number}]")]
    if faults:
        raise ValidationError(faults)
    names = [str(entry["name"]) for entry in listed]
    keys = [str(entry["name"]) for entry in listed if _is_key(entry)]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    if repeated:
        raise ValidationError([f"Attribute '{name}' is listed twice" for name in repeated])
    if len(keys) > 1 or (keys and primary_key is not None and keys[0] != primary_key):
        raise ValidationError(
            f"Only one attribute can be the primary key, not {', '.join(dict.fromkeys([*keys, *filter(None, [primary_key])]))}"
        )
    key = keys[0] if keys else primary_key or DEFAULT_KEY
    attributes = [_attribute(entry, is_key=entry["name"] == key) for entry in listed]
    if key not in names:
        attributes.insert(0, Attribute(key, primary_key=True))
    for attribute in attributes:
        if attribute.primary_key and not may_be_key(attribute):
            raise ValidationError(
                f"Attribute '{key}' of type {'array' if attribute.elements else attribute.type} cannot be the primary key"
            )
    return tuple(attributes)


def _is_key(entry: Mapping[str, Any]) -> bool:
    return entry.get("is_primary_key") is True or entry.get("isPrimaryKey") is True


def _attribute(entry: Mapping[str, Any], *, is_key: bool) -> Attribute:
    elements = entry.get("elements")
    kind = entry.get("type") if elements is None else elements
    return Attribute(
        entry["name"],
        "Any" if kind is None else kind,
        elements=elements is not None,
        required=entry.get("nullable") is False,
        indexed=entry.get("indexed") is True and not is_key,
        primary_key=is_key,
    )


def _faults(entry: Mapping[str, Any], place: str) -> list[str]:
    """What is wrong with one entry."""
    name = entry.get("name")
    faults: list[str] = []
    if name is None:
        faults.append(f"'{place}.name' is required")
    elif not isinstance(name, str):
        faults.append(f"'{place}.name' must be a string")
    elif not name:
        faults.append(f"'{place}.name' is not allowed to be empty")
    elif not is_encodable(name):
        faults.append(f"'{place}.name' must be text without unpaired surrogates")
    else:
        fault = attribute_name_fault(name) or ("Attribute names cannot include null characters" if "\0" in name else None)
        if fault is not None:
            faults.append(fault)
    kind, elements = entry.get("type"), entry.get("elements")
    if kind is not None and kind not in SCALAR_TYPES and not (kind == "array" and elements is not None):
        faults.append(f"'{place}.type' must be one of [{', '.join(SCALAR_TYPES)}]")
    if elements is not None and elements not in SCALAR_TYPES:
        faults.append(f"'{place}.elements' must be one of [{', '.join(SCALAR_TYPES)}]")
    faults += [f"'{place}.{flag}' must be a boolean" for flag in _FLAGS if not isinstance(entry.get(flag), bool | None)]
    return faults
