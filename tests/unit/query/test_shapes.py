import pytest

from svc.errors import QueryError
from svc.query import parse_query
from svc.query.nodes import Bound, Comparator, Condition, Conversion
from svc.query.shapes import Slot, cut, decoded, filled, has_slots, template_of


def declares(*names):
    return frozenset(names).__contains__


@pytest.mark.parametrize(
    "text, values",
    [
        ("name==Keyboard", ["Keyboard"]),
        ("price=gt=20&lt=60&sort(-price)", ["20", "60"]),
        ("price>=20&price<2.5&stock!=-1", ["20", "2.5", "-1"]),
        ("(name=a|name===b%20c)&[tags[]=x]", ["a", "b%20c", "x"]),
        ("brand[name==b&limit(2)]", ["b"]),
        ("name==nullable&a=sw=number", ["nullable", "number"]),
        ("id=a/b&at=ge=2024-01-05T20:07:27Z", ["a/b", "2024-01-05T20:07:27Z"]),
        ("a=null&b==1", ["1"]),
        ("a==number:5&b==date:2024-01-05&c==string:x&d==boolean:true&e=1", ["1"]),
        ("b=c+d&e=&f=(g)&h=é&i=1", ["1"]),
        ("a==x*&b=eq=null*&c==*", ["x", "null"]),
    ],
)
def test_what_is_cut_out(text, values):
    found = cut(text)
    assert found is not None and found[1] == values


@pytest.mark.parametrize("text", ["", "count()", "sort(name)&limit(5)", "a=null", "a==*", "name", "a=5&b=\0", "a==%"[:3]])
def test_nothing_to_cut_out(text):
    assert cut(text) is None


def test_shapes_differ_unless_only_values_do():
    texts = [
        "a=1",
        "a==1",
        "b=1",
        "a=1&limit(2)",
        "a=1&limit(3)",
        "a=1&b=2",
        "a=1|b=2",
        "(a=1)",
        "a=null",
        "a=1&b=null",
        "a==1&select(b)",
        "a<1",
        "a<=1",
    ]
    shapes = {(found or (text,))[0] for text in texts for found in [cut(text)]}
    assert len(shapes) == len(texts)
    assert cut("a=1&b=xyz")[0] == cut("a=%20&b=-7")[0]


def test_a_template_has_slots_for_values():
    assert template_of("a==1", declares()).where == Condition(("a",), Comparator.EQUALS, Slot(0), Conversion.CONVERTING)
    ends = template_of("a=gt=1&lt=2", declares()).where
    assert (ends.comparator, ends.value) == (Comparator.GTLT, (Slot(0), Slot(1)))
    wildcard = template_of("a==b*", declares()).where
    assert (wildcard.comparator, wildcard.value) == (Comparator.STARTS_WITH, Slot(0))
    mixed = template_of("a=ge=number:1&lt=2", declares()).where
    assert mixed.value == (Bound(1, Conversion.FORCED), Bound(Slot(0), Conversion.CONVERTING))
    assert template_of("b[c=1&limit(2)]", declares()).where.query.where.value == Slot(0)


def test_what_a_name_means_depends_on_the_declaration():
    assert template_of("a=gt=1&lt=2", declares()).where.comparator is Comparator.GTLT
    assert len(template_of("a=gt=1&lt=2", declares("lt")).where.members) == 2


@pytest.mark.parametrize(
    "text",
    [
        "a=1&live()",
        "a=1&after(abc)",
        "select(a[b=1])",
        "a=1&select(a[b=1])",
        "x=a<b",
        "x=a)",
        "x=a*",
        "x!=a*",
        "x==a*b",
        "a=in=1",
        "a=1=2",
        "a%5B=1",
        "lt=1",
        "a==1&b==string:%000",
        "a==1&b==string:%001",
    ],
)
def test_what_has_no_template(text):
    assert template_of(text, declares()) is None


def test_values_are_decoded_and_put_in():
    assert decoded(["a%20b", "c", "%2A"]) == ["a b", "c", "*"]
    for raw in ("%zz", "%", "%FF"):
        with pytest.raises(QueryError):
            decoded([raw])
    for text in ("a==1", "a=gt=1&lt=2", "a=ge=number:1&lt=2"):
        shape, node = cut(text), template_of(text, declares()).where
        assert filled(node.value, decoded(shape[1])) == parse_query(text).where.value
    assert filled(("a", None), []) == ("a", None)


def test_which_values_have_slots():
    assert has_slots(Slot(0)) and has_slots((1, Slot(0))) and has_slots((Bound(Slot(0), Conversion.CONVERTING), 1))
    assert not has_slots("a") and not has_slots((1, Bound(2, Conversion.FORCED))) and not has_slots(None)
