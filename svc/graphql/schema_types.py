"""What a caller may see -> a schema of graphql-core (spec: graphql §8.2). Pure: made on any thread."""

from __future__ import annotations

from collections.abc import Mapping

from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLField,
    GraphQLFloat,
    GraphQLID,
    GraphQLIncludeDirective,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLSkipDirective,
    GraphQLSpecifiedByDirective,
    GraphQLString,
)

from svc.graphql.names import MUTATION_TYPE, QUERY_TYPE, SUBSCRIPTION_TYPE
from svc.graphql.visible import ANY, Kind, Visible, VisibleAttribute, VisibleResource, VisibleType
from svc.store.schema import SCALAR_TYPES

Scalar = GraphQLScalarType | GraphQLEnumType
Input = Scalar | GraphQLInputObjectType

SCALARS: Mapping[str, GraphQLScalarType] = {
    "ID": GraphQLID,
    "String": GraphQLString,
    "Int": GraphQLInt,
    "Float": GraphQLFloat,
    "Boolean": GraphQLBoolean,
    "Long": GraphQLScalarType("Long", description="An integer that a double holds exactly: up to 2^53 - 1 on both sides of 0."),
    "BigInt": GraphQLScalarType("BigInt", description="An integer of at most 1000 bits, with all of its digits."),
    "Date": GraphQLScalarType(
        "Date",
        description="A point in time, as text in UTC with milliseconds. Other offsets, days alone and milliseconds since 1970 are taken, too.",
        specified_by_url="https://www.rfc-editor.org/rfc/rfc3339",
    ),
    "Bytes": GraphQLScalarType("Bytes", description="Bytes in base64.", specified_by_url="https://www.rfc-editor.org/rfc/rfc4648"),
    "Blob": GraphQLScalarType("Blob", description="Content of any size: its text, or an object that describes it."),
    ANY: GraphQLScalarType(ANY, description="A value of any kind: an object, a list, a string, a number, a boolean or null."),
}

_OPTIONS: Mapping[str, tuple[GraphQLScalarType | GraphQLList[GraphQLNonNull[GraphQLScalarType]], str]] = {
    "_limit": (GraphQLInt, "Largest number of records to return."),
    "_offset": (GraphQLInt, "Number of records to skip."),
    "_sort": (GraphQLList(GraphQLNonNull(GraphQLString)), "Names of attributes to sort by, with - in front for descending order."),
    "_where": (GraphQLString, "Conditions in the query language of URLs."),
}
_AFTER = GraphQLArgument(GraphQLString, description="Those behind this cursor.")


def build_schema(visible: Visible, *, extended: bool) -> GraphQLSchema:
    """`extended`: with what the extended form adds."""
    return _Builder(visible, extended).schema()


class _Builder:
    def __init__(self, visible: Visible, extended: bool) -> None:
        self._visible = visible
        self._extended = extended
        self._objects: dict[str, GraphQLObjectType] = {}
        self._filters: dict[str, GraphQLInputObjectType] = {}
        self._inputs: dict[str, GraphQLInputObjectType] = {}
        self._enums: dict[str, GraphQLEnumType] = {}
        self._taken = {*SCALAR_TYPES, QUERY_TYPE, MUTATION_TYPE, SUBSCRIPTION_TYPE, *visible.types}
        self._taken.update(resource.type for resource in visible.resources)
        self._taken.update(visible.enum_names)

    def schema(self) -> GraphQLSchema:
        resources = self._visible.resources
        query = {each.name: self._list_field(each) for each in resources if each.is_readable}
        directives = [GraphQLSpecifiedByDirective]
        mutation: dict[str, GraphQLField] = {}
        subscription: dict[str, GraphQLField] = {}
        if self._extended:
            directives = [GraphQLIncludeDirective, GraphQLSkipDirective, GraphQLSpecifiedByDirective]
            for each in resources:
                mutation.update(self._changes(each))
            subscription = {each.name: self._list_field(each, pages=False) for each in resources if each.is_readable and each.is_live}
        return GraphQLSchema(
            query=GraphQLObjectType(QUERY_TYPE, query),
            mutation=GraphQLObjectType(MUTATION_TYPE, mutation) if mutation else None,
            subscription=GraphQLObjectType(SUBSCRIPTION_TYPE, subscription) if subscription else None,
            directives=directives,
            assume_valid=True,
        )

    # --- fields at the top level ----------------------------------------------------------------------------------------------------

    def _list_field(self, resource: VisibleResource, *, pages: bool = True) -> GraphQLField:
        """`pages`: it can begin behind a cursor."""
        record = resource.record
        conditions: Mapping[str, Input] = {"id": GraphQLID} if record is None else self._conditions(record)
        arguments = {name: GraphQLArgument(type_) for name, type_ in conditions.items()}
        if self._extended and record is not None:
            arguments |= _list_options(after=pages)
        items = GraphQLNonNull(GraphQLList(GraphQLNonNull(self._object(resource))))
        return GraphQLField(items, arguments, description=None if record is None else record.description or None)

    def _conditions(self, record: VisibleType) -> dict[str, Input]:
        """What may be compared, by name; `id` is the key, unless an attribute has that name."""
        found: dict[str, Input] = {}
        for attribute in record.attributes:
            if attribute.is_condition:
                type_ = self._scalar(attribute) if attribute.kind is Kind.SCALAR else self._filter(attribute.type)
                if type_ is not None:
                    found[attribute.name] = type_
        if record.key is not None and all(attribute.name != "id" for attribute in record.attributes):
            found["id"] = self._scalar(record.key)
        return found

    def _filter(self, name: str) -> GraphQLInputObjectType | None:
        """The conditions on the records of a type, as an object. None: there are none."""
        found = self._filters.get(name)
        if found is None:
            record = self._visible.types[name]
            if not any(attribute.is_condition for attribute in record.attributes):
                return None
            found = self._filters[name] = GraphQLInputObjectType(
                self._name(name, "Filter"), lambda: {each: GraphQLInputField(type_) for each, type_ in self._conditions(record).items()}
            )
        return found

    def _changes(self, resource: VisibleResource) -> dict[str, GraphQLField]:
        if not resource.changes:
            return {}
        record = resource.record
        key = GraphQLNonNull(GraphQLID if record is None or record.key is None else self._scalar(record.key))
        made: Input = SCALARS[ANY] if record is None or not record.inputs else self._input(record)
        given = {"input": GraphQLArgument(GraphQLNonNull(made))}
        addressed = {"id": GraphQLArgument(key)}
        match = {"ifMatch": GraphQLArgument(GraphQLString, description="Only if the record has this entity tag.")}
        fields = {
            "post": ("create", given, "Make a new record."),
            "put": ("put", addressed | given | match, "Set a record as a whole."),
            "patch": ("patch", addressed | given | match, "Set some attributes of a record."),
            "delete": ("delete", addressed | match, "Delete a record. Whether there was one."),
        }
        found: dict[str, GraphQLField] = {}
        for verb in resource.changes:
            prefix, arguments, description = fields[verb]
            result = GraphQLBoolean if verb == "delete" else self._object(resource)
            found[f"{prefix}_{resource.name}"] = GraphQLField(result, arguments, description=description)
        return found

    # --- types -----------------------------------------------------------------------------------------------------------------------

    def _object(self, resource: VisibleResource) -> GraphQLObjectType:
        if resource.record is not None:
            return self._record(resource.record)
        found = self._objects.get(resource.type)
        if found is None:
            fields = {name: GraphQLField(SCALARS[ANY]) for name in resource.properties} | {"id": GraphQLField(GraphQLID)}
            description = "Code of an application answers. What else it shows is not declared."
            found = self._objects[resource.type] = GraphQLObjectType(resource.type, fields, description=description)
        return found

    def _record(self, record: VisibleType) -> GraphQLObjectType:
        found = self._objects.get(record.name)
        if found is None:
            options = self._extended and record.name in self._visible.types  # code of an application takes none below its list
            found = self._objects[record.name] = GraphQLObjectType(
                record.name,
                lambda: {attribute.name: self._field(attribute, options) for attribute in record.attributes},
                description=record.description or None,
            )
        return found

    def _field(self, attribute: VisibleAttribute, options: bool) -> GraphQLField:
        description = attribute.description or None
        if attribute.kind is Kind.SCALAR:
            scalar = self._scalar(attribute)
            type_ = GraphQLList(scalar) if attribute.is_list else GraphQLNonNull(scalar) if attribute.is_key else scalar
            return GraphQLField(type_, description=description)
        found = self._record(self._visible.types[attribute.type])
        if attribute.kind is Kind.EMBEDDED:
            return GraphQLField(GraphQLList(found) if attribute.is_list else found, description=description)
        if not attribute.is_list:
            return GraphQLField(found, description=description)
        arguments = _list_options(after=False) if options else {}
        return GraphQLField(GraphQLNonNull(GraphQLList(GraphQLNonNull(found))), arguments, description=description)

    def _scalar(self, attribute: VisibleAttribute) -> Scalar:
        """An enum is one in the extended form, where its values may be written as names or as strings; the other form knows strings only."""
        if attribute.enum is None or not self._extended:
            return SCALARS[attribute.type]
        name, enum = attribute.enum
        found = self._enums.get(name)
        if found is None:
            values = {value: GraphQLEnumValue(value) for value in enum.values}
            found = self._enums[name] = GraphQLEnumType(name, values, description=enum.description or None)
        return found

    def _input(self, record: VisibleType) -> GraphQLInputObjectType:
        found = self._inputs.get(record.name)
        if found is None:
            found = self._inputs[record.name] = GraphQLInputObjectType(
                self._name(record.name, "Input"), lambda: {attribute.name: self._input_field(attribute) for attribute in record.inputs}
            )
        return found

    def _input_field(self, attribute: VisibleAttribute) -> GraphQLInputField:
        embedded = attribute.kind is Kind.EMBEDDED
        type_: Input = self._input(self._visible.types[attribute.type]) if embedded else self._scalar(attribute)
        return GraphQLInputField(GraphQLList(type_) if attribute.is_list else type_, description=attribute.description or None)

    def _name(self, name: str, what: str) -> str:
        candidate, number = name + what, 1
        while candidate in self._taken:
            number += 1
            candidate = f"{name}{what}_{number}"
        self._taken.add(candidate)
        return candidate


def _list_options(*, after: bool) -> dict[str, GraphQLArgument]:
    found = {name: GraphQLArgument(type_, description=description) for name, (type_, description) in _OPTIONS.items()}
    return found | {"_after": _AFTER} if after else found
