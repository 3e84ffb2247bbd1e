"""The functions of expressions. The results of the first table are those of another implementation of JSONata."""

from __future__ import annotations

from typing import Any

import pytest

from svc.errors import QueryError
from svc.sql.functions.jsonata.library import LIBRARY
from tests.unit.sql.functions.jsonata.conftest import Search
from tests.unit.sql.functions.jsonata.test_compiler import same


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Phone{type: $count(number)}", {'home': 1, 'office': 2, 'mobile': 1}), ("$sum(Account.Order.Product.(Price*Quantity))", 336.36),
        ("$count(Phone)", 4), ("$count(Nothing)", 0), ("$count(Age)", 1), ("$count(empty)", 0), ("$not(t)", False), ("$boolean(nums)", True),
        ("$boolean([0,0])", False), ("$boolean([0,1])", True), ("$boolean([])", False), ("$boolean({})", False), ('$boolean("")', False),
        ("$boolean([[0]])", False), ("$string(0.1+0.2)", '0.3'), ("$string(1e21)", '1e+21'), ("$string(1e-7)", '1e-7'),
        ("$string(123456789012345680000)", '123456789012345680000'), ('$string({"a":[1,"b",null,true]})', '{"a":[1,"b",null,true]}'),
        ("$string(nums)", '[1,2,3,4]'), ('$string("x")', 'x'), ("$string(null)", 'null'), ('$substring("hello",1)', 'ello'),
        ('$substring("hello",1,2)', 'el'), ('$substring("hello",-3,2)', 'll'), ('$substring("hello",-30,2)', 'he'), ('$substring("hello",10)', ''),
        ('$substringBefore("hello","l")', 'he'), ('$substringBefore("hello","z")', 'hello'), ('$substringAfter("hello","l")', 'lo'),
        ('$substringAfter("hello","z")', 'hello'), ('$substringAfter("hello","")', 'hello'), ('$substringBefore("hello","")', ''),
        ('$uppercase("abc")', 'ABC'), ('$lowercase("ABC")', 'abc'), ('$length("abc")', 3), ('$trim("  a   b  ")', 'a b'), ('$pad("x",3)', 'x  '),
        ('$pad("x",5,"ab")', 'xabab'), ('$contains("hello","ell")', True), ('$contains("hello",/e.l/)', True), ('$contains("hello",/E.l/)', False),
        ('$contains("hello",/E.l/i)', True), ('$split("a,b,c",",")', ['a', 'b', 'c']), ('$split("a,b,c",",",2)', ['a', 'b']),
        ('$split("abc","")', ['a', 'b', 'c']), ('$split("a1b22c",/[0-9]+/)', ['a', 'b', 'c']), ('$join(["a","b"],"-")', 'a-b'),
        ('$join(["a","b"])', 'ab'), ('$join("a")', 'a'),
        ('$match("ababbabbcc",/a(b+)/)', [{'match': 'ab', 'index': 0, 'groups': ['b']}, {'match': 'abb', 'index': 2, 'groups': ['bb']},
         {'match': 'abb', 'index': 5, 'groups': ['bb']}]),
        ('$match("ababbabbcc",/a(b+)/,1)', {'match': 'ab', 'index': 0, 'groups': ['b']}), ('$match("x",/y/)', None),
        ('$replace("John Smith and John Jones","John","Mr")', 'Mr Smith and Mr Jones'),
        ('$replace("John Smith and John Jones","John","Mr",1)', 'Mr Smith and John Jones'), ('$replace("abracadabra",/a.*?a/,"*")', '*c*bra'),
        ('$replace("265USD",/([0-9]+)USD/,"$$$1")', '$265'), ('$replace("John Smith",/(\\w+)\\s(\\w+)/,"$2, $1")', 'Smith, John'),
        ('$number("5")', 5), ('$number("5.5")', 5.5), ('$number("1e3")', 1000), ("$number(true)", 1), ("$abs(-5)", 5), ("$floor(5.5)", 5),
        ("$floor(-5.5)", -6), ("$ceil(5.2)", 6), ("$round(5.5)", 6), ("$round(4.5)", 4), ("$round(123.456,2)", 123.46), ("$round(123.456,-1)", 120),
        ("$power(2,8)", 256), ("$power(2,0.5)", 1.4142135623730951), ("$power(2,-2)", 0.25), ("$sqrt(4)", 2), ("$sqrt(2)", 1.4142135623730951),
        ("$sum(nums)", 10), ("$max(nums)", 4), ("$min(nums)", 1), ("$average(nums)", 2.5), ("$average([])", None), ("$sum([])", 0),
        ("$max([])", None), ("$max(Nothing)", None), ("$sum(5)", 5), ("$exists(Nothing)", False), ("$exists(n)", True), ("$type(n)", 'null'),
        ("$type(nums)", 'array'), ('$type("x")', 'string'), ("$type(1)", 'number'), ("$type(t)", 'boolean'), ("$type({})", 'object'),
        ("$type(Nothing)", None), ("$type($sum)", 'function'), ("$append(nums,5)", [1, 2, 3, 4, 5]), ("$append(nums,[5,6])", [1, 2, 3, 4, 5, 6]),
        ("$append(1,2)", [1, 2]), ("$append(Nothing,1)", 1), ("$reverse(nums)", [4, 3, 2, 1]), ("$sort([3,1,2])", [1, 2, 3]),
        ('$sort(["b","a"])', ['a', 'b']), ('$distinct([1,1,2,"1",true,{"a":1},{"a":1}])', [1, 2, '1', True, {'a': 1}]),
        ("$distinct(nums)", [1, 2, 3, 4]), ("$zip([1,2],[3,4])", [[1, 3], [2, 4]]), ("$zip([1,2],[3])", [[1, 3]]), ("$zip(1,2)", [[1, 2]]),
        ("$keys(Address)", ['Street', 'City', 'Postcode']), ("$keys(objs)", ['a', 'b']), ("$keys({})", None),
        ('$lookup(Address,"City")', 'Winchester'), ('$lookup(objs,"a")', [1, 2, 'x']), ('$spread({"a":1,"b":2})', [{'a': 1}, {'b': 2}]),
        ("$spread(objs)", [{'a': 1}, {'b': [1, 2]}, {'a': 2}, {'b': [3]}, {'b': []}, {'a': 'x'}]), ('$merge([{"a":1},{"b":2}])', {'a': 1, 'b': 2}),
        ("$merge(objs)", {'a': 'x', 'b': []}), ("$map(nums, $string)", ['1', '2', '3', '4']), ("$map(Nothing, $string)", None),
        ("$map([1], $string)", '1'), ('objs{"k":$count(b)}', {'k': 3}), ("objs[$exists(a)]", [{'a': 1, 'b': [1, 2]}, {'a': 2, 'b': [3]}, {'a': 'x'}]),
        ("$count(**)", 95), ('"abc".$length($)', None), ("Phone.$uppercase(type)", ['HOME', 'OFFICE', 'OFFICE', 'MOBILE']),
        ("Phone.type.$uppercase()", ['HOME', 'OFFICE', 'OFFICE', 'MOBILE']), ("$string(Nothing)", None),
        ('$toMillis("2017-11-07T15:07:54.972Z")', 1510067274972), ("$fromMillis(1510067557121)", '2017-11-07T15:12:37.121Z'),
        ('Phone[$contains(number,"1234")].type', ['home', 'office', 'mobile']), ("Phone[$count($)>0].type", ['home', 'office', 'office', 'mobile']),
        ('$count(Phone[type="office"])', 2), ("$keys($)[0]", 'FirstName'),
        ("$string(Phone[0], true)", '{\n  "type": "home",\n  "number": "0203 544 1234"\n}'), ("$parse", None), ('$lookup({"and":1},"and")', 1),
        ("$distinct([2,1,2,3,1])", [2, 1, 3]), ("$distinct([[1],[2],[1]])", [[1], [2]]), ('$zip(nums,["a","b"])', [[1, 'a'], [2, 'b']]),
        ("$append([],[])", []), ("$count([])", 0), ('$sort(["b","a","C"])', ['C', 'a', 'b']), ("$reverse([])", []), ("$round(-2.5)", -2),
        ("$floor(-0.5)", -1), ('$substring("hello",1,-1)', ''), ('$substring("hello",-2)', 'lo'), ('$split("a, b",", ")', ['a', 'b']),
        ('$trim("")', ''), ('$pad("abc",2)', 'abc'), ('$match("aXbX",/X/).index', [1, 3]), ('$replace("abc","b","")', 'ac'),
        ('$replace("aaa","a","b",0)', 'aaa'), ("$keys(nums)", None), ("$merge([])", {}), ("$exists(Phone.x)", False),
        ("$type(nums[0])", 'number'), ("$max([])", None), ("$average([1,2])", 1.5), ("$abs(5.5)", 5.5), ("$ceil(-1.5)", -1), ("$power(0,0)", 1),
        ("$not(Nothing)", None), ('Account.{"total": $sum(Order.Product.Price)}', {'total': 198.56}),
    ],
)  # fmt: skip
def test_results(search: Search, expression: str, expected: Any) -> None:
    assert same(search(expression), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$now()", "2024-01-05T20:07:27.955Z"),
        ("$fromMillis($millis())", "2024-01-05T20:07:27.955Z"),
        ("$toMillis('x')", None),
        ("$string({'a': [1, {}]}, true)", '{\n  "a": [\n    1,\n    {}\n  ]\n}'),
        ("$string(1.0)", "1"),
        ("$round(0.5)", 0),
        ("$round(1.5)", 2),
        ("$round(2.675, 2)", 2.67),
        ("$power(2, 100)", 2**100),
        ("$split('a,b', ',', 1e300)", ["a", "b"]),
        ("$substring('😀😀', 1)", "😀"),
        ("$replace('abc', /(b)/, '[$1$0$2$$$x]')", "a[bb$$x]c"),
        ("$replace('abab', /b/, function($m){$uppercase($m.match) & $m.start})", "aB1aB3"),
        ("$match('ab', /(x)?b/)", {"match": "b", "index": 1, "groups": [""]}),
        ("$split('abc', /x*/)", ["abc"]),
        ("$distinct([{'a': 1, 'b': 2}, {'b': 2, 'a': 1}])", [{"a": 1, "b": 2}]),
        ("$distinct([1, true, 1.0])", [1, True]),
        ("$distinct('a')", "a"),
        ("$sort([2, 1], function($a, $b){$a < $b})", [2, 1]),
        ("$single([1, 2], function($x){$x = 2})", 2),
        ("$map([1, 2], $not)", [False, False]),
        ("$type(function(){1})", "function"),
        ("$boolean($sum)", False),
        ("$not([])", True),
        ("$number(' 5 ')", 5),
    ],
)
def test_what_is_its_own(search: Search, expression: str, expected: Any) -> None:
    assert same(search(expression), expected)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("$length(5)", r"\$length needs a string, not a value of type number"),
        ("$uppercase([])", "a string, not a value of type array"),
        ("$split('a', 5)", "a string, not a value of type number"),
        ("$split('a', ',', -1)", "a limit that is not negative"),
        ("$match('a', 'a')", "a regular expression"),
        ("$replace('a', '', 'b')", "a string that is not empty"),
        ("$number('x')", "a number, a boolean or the text of a number"),
        ("$sum([1, 'a'])", "a number, not a value of type string"),
        ("$max([1, null])", "a number, not a value of type null"),
        ("$sort([1, 'a'])", "only numbers or strings"),
        ("$sort([{}, {}])", "only numbers or strings"),
        ("$merge([1])", "objects, not a value of type number"),
        ("$each(5, $string)", "an object, not a value of type number"),
        ("$map([1], 5)", "a function, not a value of type number"),
        ("$reduce([1], function($a){$a})", "a function of two arguments"),
        ("$single([1, 2])", "exactly one match, not 2"),
        ("$fromMillis(1e18)", "a time"),
        ("$count()", r"\$count takes 1 argument, not 0"),
        ("$count(1, 2)", r"\$count takes 1 argument, not 2"),
        ("$zip()", "takes at least 1 arguments, not 0"),
        ("$round('a')", "a number"),
        ("$lookup({}, 5)", "a string"),
    ],
)
def test_faults(search: Search, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        search(expression)


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_what_is_undefined_is_an_argument(search: Search, name: str) -> None:
    for args in ("nothing", "nothing, nothing", "nothing, nothing, nothing"):
        try:
            search(f"${name}({args})")
        except QueryError as error:
            assert "takes" in error.message or "needs" in error.message  # with the document as the first one


@pytest.mark.parametrize("name", sorted(LIBRARY))
@pytest.mark.parametrize("value", ["null", "true", "1e300", "-1", "''", "'x'", "[]", "[[]]", "{}", "$sum", "/x/", "[1, 'a', {}, null]"])
def test_no_argument_is_a_defect(search: Search, name: str, value: str) -> None:
    for count in (1, 2, 3):
        try:
            search(f"${name}({', '.join([value] * count)})")
        except QueryError as error:
            assert error.status_code == 400
