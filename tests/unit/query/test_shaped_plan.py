from svc.auth.roles import Role
from svc.auth.users import User
from svc.query import parse_query, plan_query
from svc.query.plan import Never
from svc.query.shaped_plan import UNRESTRICTED, ShapedPlan
from svc.query.shapes import cut, decoded, template_of
from tests.support.shop import FakeTable, brand_definition, shop


def shaped(text, table, reader=UNRESTRICTED):
    return ShapedPlan(template_of(text, table.attributes.__contains__), table, reader, True)


def same(made, text, table):
    plan, expected = made.plan(decoded(cut(text)[1]), table, None), plan_query(parse_query(text), table, allow_full_scan=True)
    return all(
        getattr(plan, name) == getattr(expected, name) for name in ("access", "served", "filter", "sort", "offset", "limit", "order")
    )


def test_the_way_is_chosen_for_each_value():
    products, _ = shop([{"id": f"p{number}", "name": "rare" if number == 5 else "a", "price": number % 3} for number in range(300)])
    made = shaped("name==a&price=1", products)
    ways = set()
    for name in ("a", "rare"):
        for price in (0, 1, 7):
            assert same(made, f"name=={name}&price={price}", products)
            ways.add(str(made.plan([name, str(price)], products, None).access)[:30])
    assert len(ways) == 2


def test_values_may_make_another_condition():
    products, _ = shop([{"id": "a", "price": 5}])
    made = shaped("any=gt=1&lt=2", products)
    for low, high in (("1", "2"), ("2", "1"), ("1", "a"), ("a", "b"), ("true", "5")):
        assert same(made, f"any=gt={low}&lt={high}", products)
    assert isinstance(made.plan(["1", "a"], products, None).served[0], Never)


def test_conditions_on_other_tables():
    products, _ = shop([{"id": "a", "price": 5, "brandId": "x"}], [{"id": "x", "name": "b"}])
    made = shaped("(brand.name==b|brand[country=c&name!=d])&price=5", products)
    assert same(made, "(brand.name==x|brand[country=y&name!=z])&price=6", products)


def test_it_holds_for_one_definition_and_one_role():
    products, _ = shop()
    products.database.name = "data"
    made = shaped("price=5", products)
    assert made.holds(products, UNRESTRICTED) and not made.holds(products, User("nobody")) and not made.holds(products, None)
    tables = {"Product": {"read": True, "insert": False, "update": False, "delete": False}}
    role = Role("r", "r", {"data": {"tables": tables}}, databases={"data": products.database})
    narrowed = shaped("price=5", products, User("u", role=role))
    assert narrowed.holds(products, User("v", role=role)) and not narrowed.holds(products, UNRESTRICTED)
    assert not narrowed.holds(products, User("u", role=Role("r", "r", {"data": {"tables": tables}})))
    FakeTable(brand_definition(), products.database)
    assert not made.holds(products, UNRESTRICTED), "a related table is another one"
