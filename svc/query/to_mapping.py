"""Nodes -> query object, the inverse of `mapping`."""

from __future__ import annotations

from svc.query.nodes import (
    Bound,
    Condition,
    Conversion,
    Filter,
    Group,
    Query,
    Select,
    SelectItem,
)


def query_to_mapping(query: Query) -> dict[str, object]:
    """The inverse: `query_from_mapping(query_to_mapping(query)) == query` for every query that a mapping can say.

    Raises ValueError for what it cannot: conditions of the URL language, whose texts get their type only from a table; groups of one.
    """
    mapping = _level_to_mapping(query)
    for name in ("explain", "enforce_execution_order", "live"):
        if getattr(query, name):
            mapping[name] = True
    aggregate = query.aggregate
    if aggregate is not None:
        keys = [_path_to_mapping(path) for path in aggregate.keys]
        if aggregate.kind == "count":
            mapping["aggregate"] = "count"
        elif aggregate.kind == "facet":
            mapping["aggregate"] = {"facet": keys[0]}
        else:
            functions = [name if path is None else {name: _path_to_mapping(path)} for name, path in aggregate.functions]
            mapping["aggregate"] = {"group": keys, "functions": functions}
    if query.after is not None:
        mapping["after"] = query.after
    return mapping


def _level_to_mapping(query: Query) -> dict[str, object]:
    mapping: dict[str, object] = {}
    where = query.where
    if isinstance(where, Group) and len(where.members) > 1:
        mapping.update(_filter_to_mapping(where))
    elif where is not None:
        mapping["conditions"] = [_filter_to_mapping(where)]
    if query.sort:
        following: dict[str, object] | None = None
        for key in reversed(query.sort):
            following = {
                "attribute": _path_to_mapping(key.path),
                **({"descending": True} if key.descending else {}),
                **({} if following is None else {"next": following}),
            }
        mapping["sort"] = following
    if query.offset:
        mapping["offset"] = query.offset
    if query.limit is not None:
        mapping["limit"] = query.limit
    if query.select is not None:
        mapping.update(_select_to_mapping(query.select))
    return mapping


def _filter_to_mapping(node: Filter) -> dict[str, object]:
    if isinstance(node, Condition):
        value = node.value
        if node.conversion is not Conversion.TYPED or isinstance(value, Bound):
            raise ValueError(f"a value with {node.conversion} conversion has no form in a query object")
        return {"attribute": _path_to_mapping(node.path), "comparator": str(node.comparator), "value": _value_to_mapping(value)}
    if isinstance(node, Group):
        return {"operator": node.operator, "conditions": [_filter_to_mapping(member) for member in node.members]}
    return {"attribute": _path_to_mapping(node.path), "conditions": [], **_level_to_mapping(node.query)}


def _value_to_mapping(value: object) -> object:
    return [_value_to_mapping(element) for element in value] if isinstance(value, (list, tuple)) else value


def _select_to_mapping(select: Select) -> dict[str, object]:
    items = [_item_to_mapping(item) for item in select.items]
    if select.shape == "value":
        if select.items[0].path == ("*",):
            raise ValueError("a bare value of all properties has no form in a query object")
        return {"select": items[0]}
    return {"select": items, **({"as_array": True} if select.shape == "array" else {})}


def _item_to_mapping(item: SelectItem) -> object:
    path = _path_to_mapping(item.path)
    if item.nested is not None and item.query is not None:
        raise ValueError("a nested selection beside a relation filter has no form in a query object")
    if item.nested is not None:
        return {"name": path, **_select_to_mapping(item.nested)}
    if item.query is not None:
        return {"name": path, "conditions": [], **_level_to_mapping(item.query)}
    return path if isinstance(path, str) else {"name": path}


def _path_to_mapping(path: tuple[str, ...]) -> str | list[str]:
    return list(path) if any("." in name for name in path) else ".".join(path)
