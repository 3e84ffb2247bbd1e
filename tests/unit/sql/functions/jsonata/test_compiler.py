"""What expressions find: paths, filters, groups, order, operators, functions of expressions. The results are those of another implementation of JSONata."""

from __future__ import annotations

from typing import Any

import pytest

from svc.sql.functions.jsonata.search import search_json
from svc.sql.functions.meter import WorkMeter
from tests.unit.sql.functions.jsonata.conftest import Search


def same(found: Any, expected: Any) -> bool:
    """Equal, and booleans only to booleans."""
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return isinstance(found, dict) and list(found) == list(expected) and all(same(found[name], expected[name]) for name in expected)
    return bool(found == expected) and isinstance(found, bool) is isinstance(expected, bool)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Surname", 'Smith'), ("Age", 28), ("Address.City", 'Winchester'), ("Other.Misc", None), ("Other.Nothing", None), ("Other.`Over 18 ?`", True),
        ("Phone[0]", {'type': 'home', 'number': '0203 544 1234'}), ("Phone[1]", {'type': 'office', 'number': '01962 001234'}),
        ("Phone[-1]", {'type': 'mobile', 'number': '077 7700 1234'}), ("Phone[-2]", {'type': 'office', 'number': '01962 001235'}), ("Phone[8]", None),
        ("Phone[0].number", '0203 544 1234'), ("Phone.number", ['0203 544 1234', '01962 001234', '01962 001235', '077 7700 1234']),
        ("Phone.number[0]", ['0203 544 1234', '01962 001234', '01962 001235', '077 7700 1234']), ("(Phone.number)[0]", '0203 544 1234'),
        ("Phone[[0..1]]", [{'type': 'home', 'number': '0203 544 1234'}, {'type': 'office', 'number': '01962 001234'}]),
        ("Phone[type='mobile']", {'type': 'mobile', 'number': '077 7700 1234'}), ("Phone[type='mobile'].number", '077 7700 1234'),
        ("Phone[type='office'].number", ['01962 001234', '01962 001235']), ("Phone[type='office'].number[0]", ['01962 001234', '01962 001235']),
        ("(Phone[type='office'].number)[0]", '01962 001234'), ("Address.*", ['Hursley Park', 'Winchester', 'SO21 2JN']), ("*.Postcode", 'SO21 2JN'),
        ("**.Postcode", 'SO21 2JN'),
        ("Email.address", ['fred.smith@my-work.com', 'fsmith@my-work.com', 'freddy@my-social.com', 'frederic.smith@very-serious.com']),
        ("Email.address[0]", ['fred.smith@my-work.com', 'freddy@my-social.com']),
        ("Email.[address]", [['fred.smith@my-work.com', 'fsmith@my-work.com'], ['freddy@my-social.com', 'frederic.smith@very-serious.com']]),
        ("Email.[address[0]]", [['fred.smith@my-work.com'], ['freddy@my-social.com']]),
        ("[Email.address]", ['fred.smith@my-work.com', 'fsmith@my-work.com', 'freddy@my-social.com', 'frederic.smith@very-serious.com']),
        ("Phone.{type: number}", [{'home': '0203 544 1234'}, {'office': '01962 001234'}, {'office': '01962 001235'}, {'mobile': '077 7700 1234'}]),
        ("Phone{type: number}", {'home': '0203 544 1234', 'office': ['01962 001234', '01962 001235'], 'mobile': '077 7700 1234'}),
        ("Phone{type: number[]}", {'home': ['0203 544 1234'], 'office': ['01962 001234', '01962 001235'], 'mobile': ['077 7700 1234']}),
        ("Account.Order.Product{Name: Price}", {'Bowler Hat': [34.45, 34.45], 'Trilby hat': 21.67, 'Cloak': 107.99}),
        ('Account.Order.Product{Name: {"Price":Price,"Qty":Quantity}}', {'Bowler Hat': {'Price': [34.45, 34.45], 'Qty': [2, 4]},
         'Trilby hat': {'Price': 21.67, 'Qty': 1}, 'Cloak': {'Price': 107.99, 'Qty': 1}}),
        ("Account.Order.Product.(Price*Quantity)", [68.9, 21.67, 137.8, 107.99]),
        ("Account.Order.Product.Description.Colour", ['Purple', 'Orange', 'Purple', 'Black']), ("Account.Order[0].Product[0].Price", 34.45),
        ("Account.Order.Product[0].Name", ['Bowler Hat', 'Bowler Hat']), ("(Account.Order.Product)[0].Name", 'Bowler Hat'),
        ("Account.Order.Product^(Price).Name", ['Trilby hat', 'Bowler Hat', 'Bowler Hat', 'Cloak']),
        ("Account.Order.Product^(>Price).Name", ['Cloak', 'Bowler Hat', 'Bowler Hat', 'Trilby hat']),
        ("Account.Order.Product^(Quantity, >Price).Name", ['Cloak', 'Trilby hat', 'Bowler Hat', 'Bowler Hat']),
        ("Account.Order.Product^(Price)[0].Name", 'Trilby hat'), ("$.Age", 28), ("$$.Age", 28), ("nest", [[1, 2], [3, 4], 5, [[6]]]),
        ("nest.$", [1, 2, 3, 4, 5, [6]]), ("nest[0]", [1, 2]), ("nest[0][1]", 2), ("nest.*", [1, 2, 3, 4, 6]), ("nest[]", [[1, 2], [3, 4], 5, [[6]]]),
        ("nums", [1, 2, 3, 4]), ("nums[0]", 1), ("nums[]", [1, 2, 3, 4]), ("nums[0][]", [1]), ("nums[$>2]", [3, 4]), ("nums[$ in [1,3]]", [1, 3]),
        ("1 in nums", True), ('"a" in nums', False), ("Age in nums", False), ("nums.($*2)", [2, 4, 6, 8]),
        ("nums.[$,$]", [[1, 1], [2, 2], [3, 3], [4, 4]]), ('nums.{"v":$}', [{'v': 1}, {'v': 2}, {'v': 3}, {'v': 4}]), ("[nums, 5]", [1, 2, 3, 4, 5]),
        ("[[nums], 5]", [[1, 2, 3, 4], 5]), ('[nums.{"v":$}]', [{'v': 1}, {'v': 2}, {'v': 3}, {'v': 4}]), ("[]", []), ("{}", {}),
        ('{"a":Nothing}', {}), ('{"a":nums}', {'a': [1, 2, 3, 4]}), ('{"a":[]}', {'a': []}), ("empty", []), ("empty[0]", None), ("one", [7]),
        ("one[0]", 7), ("one[]", [7]), ("one.$", 7), ("n", None), ("n.x", None), ("t and f", False), ("t or f", True), ("t and Nothing", False),
        ("Age > 18", True), ("Age > Nothing", None), ("Nothing > Nothing", None), ("Nothing = Nothing", False), ("Nothing != 1", False),
        ("Age = 28", True), ("Age != 28", False), ("t = 1", False), ("nums = [1,2,3,4]", True), ('Address = {"City":"Winchester"}', False),
        ('Age & "x"', '28x'), ('nums & "x"', '[1,2,3,4]x'), ('Nothing & "x"', 'x'), ("0.1+0.2", 0.30000000000000004), ("10/4", 2.5), ("10%3", 1),
        ("-10%3", -1), ("10%-3", 1), ("5.5%2", 1.5), ("-Age", -28), ("2*3+4", 10), ("2+3*4", 14), ("(2+3)*4", 20), ("1-2-3", -4), ('"a" < "b"', True),
        ("$sort(Phone, function($a,$b){$a.number > $b.number}).number", ['01962 001234', '01962 001235', '0203 544 1234', '077 7700 1234']),
        ('$each(Address, function($v,$k){$k & ": " & $v})', ['Street: Hursley Park', 'City: Winchester', 'Postcode: SO21 2JN']),
        ('$sift(Address, function($v){$contains($v,"W")})', {'City': 'Winchester'}), ("$map(nums, function($v){$v*2})", [2, 4, 6, 8]),
        ("$map(nums, function($v,$i){$v*$i})", [0, 2, 6, 12]), ("$map(nums, function($v,$i,$a){$count($a)})", [4, 4, 4, 4]),
        ("$filter(nums, function($v){$v>2})", [3, 4]), ("$filter(nums, function($v){$v>3})", 4), ("$filter(nums, function($v){$v>9})", None),
        ("$single(nums, function($v){$v=3})", 3), ("$reduce(nums, function($a,$b){$a+$b})", 10), ("$reduce(nums, function($a,$b){$a+$b}, 10)", 20),
        ("$reduce([], function($a,$b){$a+$b}, 10)", 10), ("$reduce([5], function($a,$b){$a+$b})", 5), ("($x := 5; $x * 2)", 10),
        ("($f := function($n){$n < 2 ? 1 : $n * $f($n-1)}; $f(5))", 120), ("($x := 1; ($x := 2; $x); $x)", 1), ("nums ~> $sum", 10),
        ("nums ~> $sum()", 10), ("nums ~> $map(function($v){$v+1}) ~> $sum", 14), ('"x" ~> $uppercase', 'X'),
        ('($f := $uppercase ~> $trim; $f("  a "))', 'A'), ('($first := $substring(?, 0, 2); $first("hello"))', 'he'),
        ('Age > 18 ? "adult" : "minor"', 'adult'), ('Age > 50 ? "old"', None), ("t ? 1 : 0", 1), ("[1..5]", [1, 2, 3, 4, 5]), ("[1..1]", [1]),
        ("[5..1]", []), ("[1..3, 7..9]", [1, 2, 3, 7, 8, 9]), ("[1..Nothing]", []), ("[1..3].($*$)", [1, 4, 9]),
        ("Phone.type", ['home', 'office', 'office', 'mobile']), ("objs.a", [1, 2, 'x']), ("objs.b", [1, 2, 3]), ("objs.b[0]", [1, 3]),
        ("objs[a=1]", {'a': 1, 'b': [1, 2]}), ("objs[a]", {'a': 'x'}), ("objs[b]", None), ("objs.b.$", [1, 2, 3]),
        ("objs.[a,b]", [[1, 1, 2], [2, 3], [], ['x']]), ('objs.{"x":a}', [{'x': 1}, {'x': 2}, {}, {'x': 'x'}]), ('objs[a="x"].a', 'x'),
        ("**.a", [1, 2, 'x']), ("Other.*", [True, None, {'Street': 'Brick Lane'}]), ("[Address.City, Other.Misc]", ['Winchester', None]),
        ("[1,[2,3]].$", [1, 2, 3]), ("[[1,2],[3]][0]", [1, 2]), ("[[1,2],[3]].$", [1, 2, 3]), ("([1,2,3])[1]", 2), ("[1,2,3][1]", 2),
        ("[1,2,3][-1]", 3), ("[1,2,3][[0,2]]", [1, 3]), ("[1,2,3][0.9]", 1), ('{"a":1}.a', 1), ('{"a":{"b":2}}.a.b', 2), ('{"a":[1,2]}.a[1]', 2),
        ('Phone.(type & ":" & number)', ['home:0203 544 1234', 'office:01962 001234', 'office:01962 001235', 'mobile:077 7700 1234']),
        ("Phone[0].number ~> $substring(0,4)", '0203'), ('"a" & 1 & true & null', 'a1truenull'), ("1 = 1.0", True), ('"1" = 1', False),
        ("null = null", True), ("n = null", True), ("[] = []", True), ("{} = {}", True), ("Nothing.x.y", None), ("nums.x", None), ("s.x", None),
        ('$.Phone[type="home"]', {'type': 'home', 'number': '0203 544 1234'}), ('Phone[type="home" or type="mobile"].type', ['home', 'mobile']),
        ('Phone[type!="home"].type', ['office', 'office', 'mobile']), ('Phone[number in ["077 7700 1234"]].type', 'mobile'),
        ('Phone.type[$="office"]', ['office', 'office']), ('Phone[type="office"][0].number', '01962 001234'),
        ('Phone[0][type="home"].number', '0203 544 1234'), ("$[Age>1].Surname", 'Smith'), ("$[0].Surname", 'Smith'), ("Age ?: 5", 28),
        ("zero ?: 5", 5), ("Nothing ?: 5", 5), ("Nothing ?? 5", 5), ("n ?? 5", None), ('"\\u0041\\n"', 'A\n'), ('"quote\\"s"', 'quote"s'),
        ("`Age`", 28), ("/* c */ Age", 28), ('Address.("x")', 'x'), ('Address."City"', 'Winchester'), ("Address.'City'", 'Winchester'),
        ("\u03bb($x){$x}(3)", 3), ("function($x){$x+1}(3)", 4), ("(1;2;3)", 3), ("()", None), ("-5", -5), ("--5", 5), ("- -5", 5), ("1e3", 1000),
        ("1E-2", 0.01), ('"abc"[0]', 'abc'), ("Age[0]", 28), ("Age[1]", None), ("Age[]", [28]), ("Nothing[]", None),
        ("Address[]", [{'Street': 'Hursley Park', 'City': 'Winchester', 'Postcode': 'SO21 2JN'}]),
        ("Phone[type='home'][]", [{'type': 'home', 'number': '0203 544 1234'}]), ("Phone[type='home'].number[]", ['0203 544 1234']),
        ("Phone.number[][0]", ['0203 544 1234', '01962 001234', '01962 001235', '077 7700 1234']),
        ("Phone.type^($)", ['home', 'mobile', 'office', 'office']), ("nums^(>$)", [4, 3, 2, 1]), ("[3,1,2]^($)", [1, 2, 3]),
        ("Address{City: Street}", {'Winchester': 'Hursley Park'}), ("Address.{City: Street}", {'Winchester': 'Hursley Park'}),
        ("(Phone){type: number}", {'home': '0203 544 1234', 'office': ['01962 001234', '01962 001235'], 'mobile': '077 7700 1234'}),
        ("$map(Phone, function($p){$p.type})", ['home', 'office', 'office', 'mobile']), ("and", None), ("or", None), ("in", None),
        ("Phone.and", None), ('{"and":1}.and', 1), ("Account.Order.Product.Description.Colour[0]", ['Purple', 'Orange', 'Purple', 'Black']),
        ("Account.Order.(Product)[0].Name", ['Bowler Hat', 'Bowler Hat']), ("$map(objs, function($o){$o.a})", [1, 2, 'x']),
        ("$filter(objs, function($o){$o.a=1})", {'a': 1, 'b': [1, 2]}), ('$reduce(nums, function($p,$c,$i){$p & $i},"")', '0123'),
        ('$each({"a":1}, function($v){$v})', 1), ('$sift({"a":1}, function($v){$v>5})', None), ("Age > 20 and Age < 30", True), ("[Nothing]", []),
        ("[null]", [None]), ('{"a":null}', {'a': None}), ("nums[$ % 2 = 0]", [2, 4]), ("nums^(>$)[0]", 4), ("(nums^(>$))[0]", 4),
        ("Phone^(number).type", ['office', 'office', 'home', 'mobile']), ("$.nums", [1, 2, 3, 4]), ("$$.Phone[0].type", 'home'), ("**.W", [300, 500]),
        ('Account.Order[OrderID="order104"].Product.Name', ['Bowler Hat', 'Cloak']),
        ('Account.Order.Product[Price>50].{"n":Name,"p":Price}', {'n': 'Cloak', 'p': 107.99}),
        ("Account.Order.Product{Description.Colour: Quantity}", {'Purple': [2, 4], 'Orange': 1, 'Black': 1}),
    ],
)  # fmt: skip
def test_what_is_found(search: Search, expression: str, expected: Any) -> None:
    assert same(search(expression), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("($x := 1; $f := function(){$x}; $x := 2; $f())", 2),
        ("($f := function($x){function($y){$x + $y}}; $f(1)(2))", 3),
        ("($x := 1; ($x := 2); $x)", 1),
        ("($count := function($x){'own'}; $count([1,2]))", "own"),
        ("($f := function($a, $b){[$a, $b]}; $f(1))", [1]),
        ("($f := function($a){$a}; $f(1, 2))", 1),
        ("($add := function($a, $b){$a + $b}; $inc := $add(1, ?); $inc(4))", 5),
        ("[1,2] ~> $map(function($x){$x * 2}) ~> $sum", 6),
        ("($double := function($x){$x * 2}; $inc := function($x){$x + 1}; ($double ~> $inc)(5))", 11),
        ("($fib := function($n){$n < 2 ? $n : $fib($n - 1) + $fib($n - 2)}; $fib(10))", 55),
        ("$.($x := Age; $x + 1)", 29),
    ],
)
def test_variables_and_functions(search: Search, expression: str, expected: Any) -> None:
    assert same(search(expression), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$", [1, [2]]),
        ("$[0]", 1),
        ("$[1]", [2]),
        ("$count($)", 2),
        ("$$[0]", 1),
        ("*", [1, 2]),
        ("[$]", [1, [2]]),
        ("{'a': $}", {"a": [1, [2]]}),
    ],
)
def test_a_list_as_the_whole_value(meter: WorkMeter, expression: str, expected: Any) -> None:
    assert same(search_json(expression, "[1,[2]]", meter), expected)
