"""Numbers of equal trees."""

from hypothesis import given
from hypothesis import strategies as st

from svc.sql.binding.shapes import Shapes
from svc.sql.binding.walking import depth_of, is_small, position_of, walk
from svc.sql.nodes import Binary, Call, Column, In, Literal, Unary
from svc.sql.parser import parse

LEAVES = st.sampled_from([Literal(1), Literal(True), Literal(1.0), Literal("1"), Column("a"), Column("a", "t"), Literal(None)])


def grown(inner):
    return st.one_of(
        st.builds(Unary, st.sampled_from("-+"), inner),
        st.builds(Binary, st.sampled_from(["AND", "+"]), inner, inner, st.integers(0, 3)),
        st.builds(lambda args: Call("ABS", tuple(args)), st.lists(inner, max_size=3)),
        st.builds(lambda operand, items: In(operand, tuple(items)), inner, st.lists(inner, max_size=2)),
    )


TREES = st.recursive(LEAVES, grown, max_leaves=6)


@given(TREES, TREES)
def test_equal_trees_have_the_same_number(one, other):
    shapes = Shapes()
    assert (shapes.of(one) == shapes.of(other)) == (repr_of(one) == repr_of(other))


def repr_of(tree):
    """What `==` compares, and the types of values, which it takes as equal."""
    return repr(tree)


def test_walking():
    query = parse("SELECT a + b AS c, (SELECT MAX(d) OVER (ORDER BY e) FROM data.t WHERE f IN (1, 2)) FROM data.u")
    assert [node.name for node in walk(query) if isinstance(node, Column)] == ["a", "b", "d", "e", "f"]
    assert [node.name for node in walk(query, lambda node: not isinstance(node, Binary)) if isinstance(node, Column)] == ["d", "e", "f"]
    assert position_of(query.first.items[0].expression) == 7
    assert position_of(Literal(1)) is None


def test_sizes():
    tree = parse("SELECT -(-(-a))").first.items[0].expression
    assert [depth_of(tree, most) for most in (2, 3, 4, 9)] == [3, 4, 4, 4]
    assert [is_small(tree, most) for most in (3, 4)] == [False, True]
