import pytest

from svc.errors import IndexRebuilding, QueryError
from svc.query import parse_query, plan_query
from svc.query.execution import result_columns
from svc.query.nodes import Comparator, Condition, Group, Query, SortKey
from svc.query.plan import AllOf, AnyOf, Comparison, IndexRange, KeyLookup, KeyRange, Nothing, OrderedIndex, ThroughRelated, Union
from svc.store.values.keys import after, encode_key, index_key, prefix_range
from tests.support.shop import product_definition, shop

RECORDS = [
    {"id": f"p{n:03}", "name": "abc"[n % 3], "price": n, "tags": ["x", "y"][: n % 3], "stock": n % 5, "brandId": f"b{n % 2}"}
    for n in range(100)
]
BRANDS = [{"id": "b0", "name": "zero"}, {"id": "b1", "name": "one", "country": "c"}]
PRODUCTS, BRAND_TABLE = shop(RECORDS, BRANDS)


class Figures:
    """Statistics that remember what they were asked."""

    def __init__(self, counts=None, records=1000) -> None:
        self.counts = counts or {}
        self.record_count = records
        self.asked = []

    def count(self, attribute, low, high, most=None):
        self.asked.append(attribute)
        return self.counts.get(attribute, self.record_count)


def plan(text, table=PRODUCTS, **options):
    return plan_query(parse_query(text, table.attributes.__contains__), table, None, **options)


def fault(text, table=PRODUCTS, **options):
    with pytest.raises(QueryError) as caught:
        plan(text, table, allow_full_scan=False, **options)
    return caught.value.code, caught.value.message


# access


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("", KeyRange()),
        ("id=p001", KeyLookup((encode_key("p001"),))),
        ("id==null", Nothing()),
        ("id!=null", KeyRange()),
        ("id=sw=p0", KeyRange(*prefix_range("p0"))),
        ("id=gt=p0&le=p1", KeyRange(after(encode_key("p0")), after(encode_key("p1")))),
        ("price=5", IndexRange("price", index_key(5), after(index_key(5)), single=True)),
        ("price==null", IndexRange("price", index_key(None), after(index_key(None)), single=True)),
        ("price!=null", IndexRange("price", after(index_key(None)), None)),
        ("price=gt=5", IndexRange("price", after(index_key(5)), b"\x09")),
        ("price=le=5", IndexRange("price", b"\x08", after(index_key(5)))),
        ("price=ge=5&lt=9", IndexRange("price", index_key(5), index_key(9))),
        ("price=ge=5&price=lt=9", IndexRange("price", index_key(5), index_key(9))),
        ("price=ge=9&price=lt=5", Nothing()),
        ("price=gt=null", Nothing()),
        ("tags=ge=x&lt=z", IndexRange("tags", index_key("x"), index_key("z"), distinct=True)),
        ("name==a*", IndexRange("name", *prefix_range("a"))),
        ("any==boolean:true", IndexRange("any", b"\x04", b"\x04\0", single=True)),
        ("any=gt=boolean:false", IndexRange("any", b"\x03\0", b"\x04\0", distinct=True)),
    ],
)
def test_a_condition_becomes_a_range_that_needs_no_further_test(text, access):
    found = plan(text, allow_full_scan=False)
    assert found.access == access
    assert found.filter is None


def test_a_long_text_is_tested_again():
    found = plan("name==" + "x" * 300, allow_full_scan=False)
    assert isinstance(found.access, IndexRange)
    assert isinstance(found.filter, Comparison)


def test_ranges_of_a_list_attribute_are_not_joined():
    """[1, 9] has an element over 5 and one below 3."""
    found = plan("tags=gt=x&tags=lt=b")
    assert isinstance(found.access, IndexRange) and isinstance(found.filter, Comparison)


def test_an_inequality_with_null_needs_an_index_that_has_all_records():
    assert plan("tags!=null", allow_full_scan=False).access == KeyRange()  # an empty list is in no index
    assert plan("any!=null", allow_full_scan=False).access == KeyRange()


# AND, OR


def test_the_condition_with_the_fewest_entries_leads():
    query = parse_query("name=a&price=5&stock=1")
    figures = Figures({"name": 300, "price": 2})
    found = plan_query(query, PRODUCTS, None, statistics=figures)
    assert found.access.attribute == "price"
    assert [member.path for member in found.filter.members] == [("name",), ("stock",)]
    found = plan_query(query, PRODUCTS, None, statistics=Figures({"name": 1, "price": 2}))
    assert found.access.attribute == "name"


def test_the_given_order_can_be_kept():
    query = parse_query("stock=1&name=a&price=5")
    forced = Query(query.where, enforce_execution_order=True)
    found = plan_query(forced, PRODUCTS, None, statistics=Figures({"name": 300, "price": 2}))
    assert found.access.attribute == "name"
    assert [member.path for member in found.filter.members] == [("stock",), ("price",)]


def test_nothing_is_counted_when_there_is_no_choice():
    for text in ("price=5", "price=gt=5", "price=gt=5&sort(-price)&limit(3)", "", "name=a|price=5"):
        figures = Figures()
        plan(text, statistics=figures)
        assert figures.asked == []


def test_an_or_is_a_union_if_all_its_members_have_an_index():
    found = plan("price=5|(name=a&stock=1)|id=p001", allow_full_scan=False)
    assert isinstance(found.access, Union) and found.filter is None
    assert [type(branch.access) for branch in found.access.branches] == [IndexRange, IndexRange, KeyLookup]
    assert [branch.filter is None for branch in found.access.branches] == [True, False, True]
    assert isinstance(plan("price=5|stock=1", allow_full_scan=True).filter, AnyOf)


def test_groups_inside_groups_of_the_same_kind_are_one():
    assert isinstance(plan("(stock=1&stock=2)&stock=3").filter, AllOf)
    assert len(plan("(stock=1&stock=2)&stock=3").filter.members) == 3


# order


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("sort(id)", KeyRange()),
        ("sort(-id)", KeyRange(reverse=True)),
        ("sort(-id,name)&id=gt=p1", KeyRange(after(encode_key("p1")), b"\x11", reverse=True)),
        ("sort(price)", IndexRange("price", None, None)),
        ("sort(price)&price=gt=5", IndexRange("price", after(index_key(5)), b"\x09")),
        ("sort(-price)", OrderedIndex("price", None, None, (SortKey(("price",), True),))),
        ("sort(price,-name)", OrderedIndex("price", None, None, (SortKey(("price",)), SortKey(("name",), True)))),
        ("brandId=b1&sort(id)", IndexRange("brandId", index_key("b1"), after(index_key("b1")), single=True)),
        ("brandId=b1&sort(-id)", IndexRange("brandId", index_key("b1"), after(index_key("b1")), single=True, reverse=True)),
    ],
)
def test_the_order_is_delivered(text, access):
    found = plan(text)
    assert found.access == access and found.sort == ()


@pytest.mark.parametrize(
    "text", ["sort(tags)", "sort(any)", "stock=1&sort(stock)", "price=5|name=a&sort(price)", "brandId=b0&sort(specs.color)"]
)
def test_the_rest_is_sorted_in_memory(text):
    assert plan(text).sort != ()


def test_few_matches_are_sorted_and_many_are_walked_in_order():
    query = parse_query("name=a&sort(-price)&limit(10)")
    found = plan_query(query, PRODUCTS, None, statistics=Figures({"name": 20}))
    assert found.access.attribute == "name" and found.sort == query.sort
    found = plan_query(query, PRODUCTS, None, statistics=Figures({"name": 500}))
    assert found.access.attribute == "price" and found.sort == () and isinstance(found.filter, Comparison)


# refusals


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "inStock==true",
            "NOT_INDEXED",
            '"inStock" is not indexed, can not search for this attribute '
            "(add @indexed to inStock, or combine it with a condition on an indexed attribute)",
        ),
        (
            "specs.color=red",
            "NOT_INDEXED",
            '"specs.color" is not indexed, can not search for this attribute (combine it with a condition on an indexed attribute)',
        ),
        (
            "name=ct=a",
            "NOT_INDEXED",
            "Can not use contains operator without combining with a condition that uses an index, can not search for attribute name",
        ),
        (
            "price!=5",
            "NOT_INDEXED",
            "Can not use not_equal operator without combining with a condition that uses an index, can not search for attribute price",
        ),
        (
            "id=ew=5",
            "NOT_INDEXED",
            "Can not use ends_with operator without combining with a condition that uses an index, can not search for attribute id",
        ),
        (
            "price=5|stock=1",
            "NOT_INDEXED",
            '"stock" is not indexed, can not search for this attribute '
            "(add @indexed to stock, or combine it with a condition on an indexed attribute)",
        ),
        (
            "sort(stock)",
            "NOT_INDEXED",
            "stock is not indexed and not combined with any other conditions (add @indexed to stock, or a condition)",
        ),
        (
            "sort(specs.color)",
            "NOT_INDEXED",
            "specs.color is not indexed and not combined with any other conditions (add a condition on an indexed attribute)",
        ),
        ("foo=1", "UNKNOWN_ATTRIBUTE", "foo is not a defined attribute"),
        ("$id=1", "UNKNOWN_ATTRIBUTE", "$id is not a defined attribute"),
        ("sort(foo)", "UNKNOWN_ATTRIBUTE", "foo is not a defined attribute"),
        ("brand.foo=1", "UNKNOWN_ATTRIBUTE", "foo is not a defined attribute"),
        ("price==abc", "BAD_VALUE", 'Invalid value for attribute price: "abc", expecting Float'),
        ("price=gt=1&lt=x", "BAD_VALUE", 'Invalid value for attribute price: "x", expecting Float'),
    ],
)
def test_refusals(text, code, message):
    assert fault(text) == (code, message)


@pytest.mark.parametrize("text", ["brand=b1", "brand==b1&price=5", "sort(brand)", "name[id=1]", "select(name[id=1])"])
def test_what_a_relationship_cannot_do(text):
    assert fault(text)[0] == "UNUSABLE_OPERATOR"


@pytest.mark.parametrize(
    "text", ["price=5&stock=1", "(stock=1|inStock==true)&price=5", "price=5|name=a", "stock=gt=null", "brand.country=c", "name!=null"]
)
def test_one_indexed_condition_is_enough(text):
    plan(text, allow_full_scan=False)


def test_unset_allows_a_scan_but_not_an_unindexed_sort_of_everything():
    assert isinstance(plan("stock=1").filter, Comparison)
    with pytest.raises(QueryError):
        plan("sort(stock)")
    assert plan("sort(stock)", allow_full_scan=True).sort


def test_an_index_that_is_being_built():
    table, _ = shop(RECORDS, BRANDS)
    table.indexes["price"].ready = False
    for text in ("price=5", "price=5|name=a", "price=5&stock=1", "sort(price)"):
        with pytest.raises(IndexRebuilding, match='"price" is not indexed yet'):
            plan(text, table, allow_full_scan=False)
    assert plan("price=5&name=a", table, allow_full_scan=False).access.attribute == "name"
    assert plan("price=5", table, allow_full_scan=True).access == KeyRange()
    assert fault("price=5|stock=1", table)[0] == "NOT_INDEXED"


def test_malformed_groups_of_a_query_object():
    member = Condition(("price",), Comparator.EQUALS, 5)
    for group in (Group("or", (member,)), Group("and", ()), Group("xor", (member, member))):
        with pytest.raises(QueryError) as caught:
            plan_query(Query(group), PRODUCTS, None)
        assert caught.value.code == "QUERY_SYNTAX"
    assert plan_query(Query(Group("and", (member,))), PRODUCTS, None).access.attribute == "price"


# collections below a key, joins, explain


def test_a_key_prefix_is_a_range_and_always_indexed():
    assert plan("", key_prefix="a/", allow_full_scan=False).access == KeyRange(*prefix_range("a/"))
    found = plan("stock=1", key_prefix="a/", allow_full_scan=False)
    assert found.access == KeyRange(*prefix_range("a/")) and isinstance(found.filter, Comparison)


def test_a_join_starts_where_it_is_cheaper():
    assert isinstance(plan("brand.name=one").access, ThroughRelated)
    assert plan("brand.name=one&id=p001").access == KeyLookup((encode_key("p001"),))
    assert isinstance(plan("products.price=5", BRAND_TABLE, allow_full_scan=False).access, ThroughRelated)


def test_conditions_through_one_relationship_speak_of_one_record():
    found = plan("products.price=5&products.stock=0", BRAND_TABLE)
    assert len(found.served) == 1 and isinstance(found.served[0].where, AllOf)


def test_columns():
    stored = tuple(attribute.name for attribute in product_definition().attributes if attribute.stored)
    assert result_columns(plan("")) == stored and "brand" not in stored
    assert result_columns(plan("select(name,brand{name},$id)")) == ("name", "brand", "$id")
    assert result_columns(plan("select(*,brand)")) == (*stored, "brand")


def test_a_live_query_is_no_question_with_one_answer():
    with pytest.raises(QueryError, match="it is for subscriptions") as caught:
        plan_query(parse_query("price=5&live()"), PRODUCTS)
    assert (caught.value.status_code, caught.value.code) == (400, "QUERY_SYNTAX")
