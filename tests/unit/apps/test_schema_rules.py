"""svc.apps.schema_rules: `@allow` and `@account` in schema files, whose faults end the load."""

from __future__ import annotations

import pytest

from svc.apps.schema_files import SchemaResult, load_schema_files
from svc.apps.schema_rules import NamedRole, read_rules, unknown_roles
from svc.apps.schema_syntax import SourcePosition, TypeDeclaration, parse_schema
from svc.store.schema import Allow, TableDefinition

ISSUE = """\
type Issue @table @export
  @allow(read: "public==true|owner==$user.username",
         create: "owner==$user.username", update: "owner==$user.username", delete: "owner==$user.username&state==draft")
  @allow(roles: ["moderator"], read: "true", update: "true", delete: "state!=published") {
  id: ID @primaryKey
  owner: ID @indexed
  public: Boolean @indexed
  state: String
}
"""


def load(*texts: str) -> SchemaResult:
    return load_schema_files([(f"{number}.graphql", text) for number, text in enumerate(texts, 1)])


def rules(directives: str, fields: str = "id: ID a: Int @indexed b: Int @indexed") -> TableDefinition:
    result = load(f"type T @table {directives} {{ {fields} }}")
    assert not result.faults and not result.ends_load
    return result.definitions[0]


def test_all_that_a_type_has_are_kept_in_order() -> None:
    result = load(ISSUE)
    assert not result.faults
    assert result.definitions[0].allow == (
        Allow(
            None,
            "public==true|owner==$user.username",
            "owner==$user.username",
            "owner==$user.username",
            "owner==$user.username&state==draft",
        ),
        Allow(("moderator",), read="true", update="true", delete="state!=published"),
    )
    assert result.roles == [NamedRole("moderator", "Issue", "1.graphql:4:17")]
    assert not result.definitions[0].account


@pytest.mark.parametrize(
    ("directives", "allow"),
    [
        ("", ()),
        ('@allow(read: "true")', (Allow(read="true"),)),
        ("@allow(read: true, delete: false)", (Allow(read="true", delete="false"),)),
        ('@allow(roles: editor, read: "a==1") @allow(roles: [a, "b", a], read: "b==1")', (
            Allow(("editor",), read="a==1"), Allow(("a", "b"), read="b==1"),
        )),
        ('@allow(create: """\n  a==1\n""")', (Allow(create="a==1"),)),
    ],
)  # fmt: skip
def test_forms(directives: str, allow: tuple[Allow, ...]) -> None:
    assert rules(directives).allow == allow


@pytest.mark.parametrize(
    ("directives", "fault"),
    [
        ('@allow(reed: "owner==1")', "1:29: @allow of T has no argument reed, did you mean 'read'?"),
        ('@allow(read: "true", when: "a")', "1:43: @allow of T has no argument when; there are roles, read, create, update, delete"),
        ("@allow", '1:15: @allow of T says nothing: it needs read:, create:, update: or delete:, each a condition, "true" or "false"'),
        ('@allow(roles: ["a"])', '1:15: @allow of T says nothing: it needs read:, create:, update: or delete:, each a condition, "true" or "false"'),
        ('@allow(read: "")', '1:29: @allow of T: read is empty: write "true" for everyone, or "false" for nobody'),
        ('@allow(update: " ", read: "true")', '1:31: @allow of T: update is empty: write "true" for everyone, or "false" for nobody'),
        ("@allow(delete: null)", '1:30: @allow of T: delete must be a condition, "true" for everyone or "false" for nobody; '
         "without it the action is not narrowed"),
        ("@allow(read: 1)", '1:28: @allow of T: read must be a string: a condition, "true" or "false"'),
        ('@allow(read: ["a==1"])', '1:28: @allow of T: read must be a string: a condition, "true" or "false"'),
        ("@allow(read: {a: 1})", '1:28: @allow of T: read must be a string: a condition, "true" or "false"'),
        ('@allow(roles: [], read: "true")', "1:29: @allow of T: roles names nobody: name roles, or leave it out for all that no other @allow "
         "of the type names"),
        ('@allow(roles: null, read: "true")', "1:29: @allow of T: roles names nobody: name roles, or leave it out for all that no other @allow "
         "of the type names"),
        ('@allow(roles: [""], read: "true")', "1:29: @allow of T: roles must not be empty"),
        ('@allow(roles: [1], read: "true")', "1:29: @allow of T: roles must be a list of names"),
        ('@allow(roles: true, read: "true")', "1:29: @allow of T: roles must be a list of names"),
        ('@allow(read: "false", read: "true")', "1:44: @allow of T: read is there twice"),
        ('@alow(read: "true")', "1:15: the directive @alow is not known, did you mean '@allow'?"),
        ('@Allow(read: "true")', "1:15: the directive @Allow is not known, did you mean '@allow'?"),
    ],
)  # fmt: skip
def test_what_is_not_right_ends_the_load(directives: str, fault: str) -> None:
    result = load(f"type T @table {directives} {{ id: ID }}", "type Other @table { id: ID }")
    assert [str(each) for each in result.faults] == [f"1.graphql:{fault}"]
    assert result.errors and result.ends_load
    assert result.definitions == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('type T @allow(read: "true") { id: ID }', "1:8: @allow of T needs @table: rules are for the records of a table"),
        ("type T @account { id: ID }", "1:8: @account of T needs @table: accounts are the records of a table"),
        (
            'type T @table { id: ID  a: String @allow(read: "true") }',
            "1:35: @allow(read:) of T.a: rules are for whole records, put it on a type with @table",
        ),
        (
            'type T { a: String @allow(role: x, roles: [y]) } type U @table { id: ID }',
            "1:20: @allow(roles:) of T.a: rules are for whole records, put it on a type with @table",
        ),
        (
            'type T @table { id: ID } extend type T @allow(read: "false")',
            "1:40: @allow of the object type extension T would be ignored: put it on the type with @table",
        ),
        (
            'type T @table { id: ID } interface I @allow(read: "false") { id: ID }',
            "1:38: @allow of the interface type I would be ignored: put it on the type with @table",
        ),
    ],
)  # fmt: skip
def test_rules_in_other_places_end_the_load(text: str, fault: str) -> None:
    result = load(text)
    assert [str(each) for each in result.faults if each.error] == [f"1.graphql:{fault}"]
    assert result.ends_load and not result.definitions


def test_roles_of_a_field_are_no_rule() -> None:
    assert rules("", "id: ID  secret: String @allow(role: [a])").allow == ()


@pytest.mark.parametrize(
    "text",
    [
        "type T @table @allow(read: \"false\") { id: ID a: Int @default(value: no) }",
        "type T @table @allow(read: \"false\") { id: ID",
    ],
)  # fmt: skip
def test_another_fault_of_a_type_with_rules_ends_the_load_too(text: str) -> None:
    result = load(text, "type Other @table { id: ID }")
    assert result.errors and result.ends_load and not result.definitions


def test_other_faults_cost_one_table() -> None:
    result = load("type T @table { id: ID a: Int @default(value: no) }", ISSUE)
    assert result.errors and not result.ends_load
    assert [each.name for each in result.definitions] == ["Issue"]


def test_two_declarations_of_a_table_have_the_same_rules() -> None:
    other = 'type Mine @table(table: "T") @allow(read: "false") { id: ID }'
    assert load("type T @table { id: ID }", other).definitions[0].allow == (Allow(read="false"),)
    result = load('type T @table @allow(read: "true") { id: ID }', other)
    assert result.errors == ["2.graphql:1:6: T is declared differently by another declaration of the table: allow"]
    assert result.ends_load and not result.definitions


class TestAccount:
    @pytest.mark.parametrize("fields", ["username: ID @primaryKey", "username: String! @primaryKey  email: String @unique"])
    def test_one_table_with_text_keys(self, fields: str) -> None:
        result = load(f"type Person @table @account {{ {fields} }}", ISSUE)
        assert not result.faults
        assert {each.name: each.account for each in result.definitions} == {"Person": True, "Issue": False}

    @pytest.mark.parametrize(
        ("directives", "fields"), [("", "id: Long"), ("", "id"), ("", "name: String"), ("@splitSegments", "id: String"), ("", "id: Any")]
    )
    def test_other_keys_are_refused(self, directives: str, fields: str) -> None:
        result = load(f"type Person @table @account {directives} {{ {fields} }}")
        assert result.errors == [
            "1.graphql:1:20: @account of Person: the primary key id is a username, so its type must be ID or String, without @splitSegments"
        ]
        assert result.ends_load

    def test_there_is_one(self) -> None:
        result = load("type Person @table @account { id: ID }", "type Guest @table @account { id: ID }")
        assert result.errors == ["2.graphql:1:19: @account of Guest: the accounts of the application are the records of Person already"]
        assert result.ends_load and not result.definitions

    def test_another_declaration_of_the_same_table_may_say_it_again(self) -> None:
        result = load("type Person @table @account { id: ID }", 'type Mine @table(table: "Person") @account { id: ID }')
        assert not result.errors and result.definitions[0].account


class TestPosition:
    def place(self, text: str, action: str, offset: int | None) -> tuple[int, int]:
        declaration = parse_schema(text)[0]
        assert isinstance(declaration, TypeDeclaration)

        class Report:
            def fail_rule(self, message: str, position: SourcePosition) -> None:
                raise AssertionError(message)

        found = read_rules(declaration.name, declaration.directives, Report())[-1].position(action, offset)
        return found.line, found.column

    def test_of_a_character_of_a_rule_in_one_line(self) -> None:
        assert self.place(ISSUE, "delete", 0) == (4, 71)
        assert ISSUE.splitlines()[3][70 + len("state") :].startswith("!=")
        assert self.place(ISSUE, "delete", 5) == (4, 76)

    def test_of_the_string_if_its_characters_have_no_place(self) -> None:
        for text in ('"""\na==1\n"""', r'"a==\u0031"'):
            assert self.place(f"type T @table\n  @allow(read: {text}) {{ id: ID }}", "read", 3) == (2, 16)

    def test_of_the_directive(self) -> None:
        assert self.place(ISSUE, "", None) == self.place(ISSUE, "create", 4) == (4, 3)


def test_roles_that_are_not_there() -> None:
    named = [NamedRole(name, "T", "a.graphql:1:2") for name in ("editor", "anonymous", "edtor", "x")]
    assert unknown_roles(named, {"editor"}) == [
        "a.graphql:1:2: @allow of T is for the role edtor, which does not exist, did you mean 'editor'?",
        "a.graphql:1:2: @allow of T is for the role x, which does not exist",
    ]


class TestConditions:
    """What `svc.query.rule_faults` finds, with its place."""

    PROJECT = "type Project @table { id: ID  members: [ID] @indexed }"

    def test_a_fault_has_the_column_of_the_character(self) -> None:
        result = load(ISSUE.replace("state==draft", "stat==draft"))
        assert [str(each) for each in result.faults] == [
            '1.graphql:3:107: @allow of Issue, delete: stat is not a defined attribute (did you mean "state"?)'
        ]  # fmt: skip
        assert result.ends_load and not result.definitions

    def test_a_fault_of_syntax(self) -> None:
        result = load('type T @table @allow(read: """\n  id==1&(\n""") { id: ID }', self.PROJECT)
        assert result.errors == [
            "1.graphql:1:28: @allow of T, read: Unable to parse query, expected a condition but found the end at position 7 in 'id==1&('"
        ]
        assert result.ends_load and not result.definitions

    def test_without_an_index_it_is_a_warning(self) -> None:
        result = load('type T @table @allow(read: "owner==$user.username") { id: ID owner: ID }')
        assert not result.errors and len(result.definitions) == 1
        assert result.warnings == [
            "1.graphql:1:29: @allow of T, read: no index serves the rule, so that queries read all records of T: add @indexed to owner"
        ]

    def test_tables_of_other_applications_are_known(self) -> None:
        text = (
            'type T @table @allow(read: "project.members==$user.username") '
            '{ id: ID  projectId: ID @indexed  project: Project @relationship(from: "projectId") }'
        )
        project = load(self.PROJECT).definitions[0]
        assert not load_schema_files([("a.graphql", text)], {"data": {"Project": project}}).faults
        lost = load_schema_files([("a.graphql", text.replace("members", "member"))], {"data": {"Project": project}})
        assert len(lost.errors) == 1 and lost.ends_load
        broken = load(text, self.PROJECT.replace("@indexed", "@indexed @check"))
        assert len(broken.errors) == 2 and broken.ends_load

    def test_rules_that_lead_to_each_other_are_found_whatever_else_is_wrong_elsewhere(self) -> None:
        def declared(name: str, other: str, rule: str) -> str:
            return (
                f'type {name} @table @allow(read: "{rule}") {{ id: ID  n: Int  oId: ID @indexed  o: {other} @relationship(from: "oId") }}'
            )

        broken = TableDefinition(
            "X", attributes=load(self.PROJECT).definitions[0].attributes, allow=(Allow(read="gone==1"), Allow(read="("))
        )
        files = [("a.graphql", declared("A", "B", "o.n==1")), ("b.graphql", declared("B", "A", "o.n==2"))]
        result = load_schema_files(files, {"data": {"X": broken}})
        assert [each.partition(": ")[0] for each in result.errors] == ["a.graphql:1:29", "b.graphql:1:29"]
        assert "lead back to A" in result.errors[0]
        assert not load_schema_files(
            files[:1], {"data": {"X": broken, "B": load(declared("B", "A", "n==2"), self.PROJECT).definitions[0]}}
        ).errors

    def test_a_rule_of_another_application_that_cannot_be_followed_any_more_is_a_warning(self) -> None:
        rule = 'type T @table @allow(read: "project.members==$user.username") { id: ID  pId: ID @indexed  project: Project @relationship(from: "pId") }'
        known = {"data": {each.name: each for each in load(rule, self.PROJECT).definitions if each.name == "T"}}
        assert not load_schema_files([("p.graphql", self.PROJECT)], known).faults
        result = load_schema_files([("p.graphql", self.PROJECT.replace("members", "people"))], known)
        assert not result.errors and [each.partition(": ")[0] for each in result.warnings] == ["p.graphql:1:6"]
        assert (
            "the rule of T for read, which another application declares, holds for no record: members is not a defined"
            in result.warnings[0]
        )

    def test_values_of_the_account(self) -> None:
        person = "type Person @table @account { username: ID  @primaryKey  team: ID }"
        rule = 'type T @table @allow(read: "team==$user.team") { id: ID  team: ID @indexed }'
        assert not load(person, rule).faults
        assert "has no attribute club" in load(person, rule.replace("user.team", "user.club")).errors[0]
        assert "no type is marked @account" in load(rule).errors[0]
        account = load(person).definitions[0]
        assert not load_schema_files([("t.graphql", rule)], {"people": {"Person": account}}).faults
