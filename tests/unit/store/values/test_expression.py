"""svc.store.values.expression: what can be said, what is refused, and where."""

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import SchemaError
from svc.store.values.expression import MAX_CHARACTERS, MAX_DEPTH, MAX_LOOPS, Expression, compile_expression
from svc.store.values.expression_functions import BUDGET, meter

RECORD: dict[str, Any] = {
    "a": 3,
    "b": 4.5,
    "code": "x1",
    "none": None,
    "flag": True,
    "place": {"hall": "A", "row": {"number": 7}, "items": 5},
    "tags": ["usb", "red", "usb"],
    "lines": [{"price": 2, "count": 3}, {"price": 5, "count": 1}],
    "line": "a, b;c",
    "when": datetime(2026, 1, 5, 20, 7, tzinfo=UTC),
    "re": "not a module",
    "max": 9,
}


def value(text: str) -> Any:
    return evaluate(compile_expression(text), RECORD)


def evaluate(expression: Expression, record: dict[str, Any]) -> Any:
    return expression.evaluate(map(record.get, expression.names))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Literals
        ("1", 1),
        ("-1.5e3", -1500.0),
        ("0x10 + 1_000", 1016),
        ("'a' \"b\"", "ab"),
        ("None", None),
        ("[1, 'a', None]", [1, "a", None]),
        ("(1, 2)", [1, 2]),
        ("1, 2", [1, 2]),
        ("{'a': a, 'b': [b]}", {"a": 3, "b": [4.5]}),
        ("{3, 1, 3}", [3, 1]),
        ("b'x'", b"x"),
        # Names
        ("a", 3),
        ("missing", None),
        ("none", None),
        ("place.hall", "A"),
        ("place.row.number", 7),
        ("place.missing.deeper", None),
        ("missing.deeper", None),
        ("place.items", 5),
        ("re", "not a module"),
        ("max + 1", 10),
        # Operators
        ("a + b * 2 - 1", 11.0),
        ("a ** 2 // 2 % 3", 1),
        ("a / 2", 1.5),
        ("-a + +b", 1.5),
        ("'ab' * 2", "abab"),
        ("2 * [a]", [3, 3]),
        ("tags + ['x']", ["usb", "red", "usb", "x"]),
        ("not a", False),
        ("missing or 'x'", "x"),
        ("a and b", 4.5),
        ("1 < a <= 3 != 4", True),
        ("missing is None and none is None and flag is True", True),
        ("a is not None", True),
        ("'usb' in tags and 'x' not in tags", True),
        ("'hall' in place", True),
        ("'cheap' if a < 3 else 'dear'", "dear"),
        # Indexing, slicing
        ("tags[0] + tags[-1]", "usbusb"),
        ("place['hall']", "A"),
        ("tags[1:]", ["red", "usb"]),
        ("code[::-1]", "1x"),
        ("code[:1]", "x"),
        # Comprehensions
        ("[t.upper() for t in tags if t != 'red']", ["USB", "USB"]),
        ("sum(line.price * line.count for line in lines)", 11),
        ("{t for t in tags}", ["usb", "red"]),
        ("{k: v for k, v in place.items() if k == 'hall'}", {"hall": "A"}),
        ("[x + y for x in [1, 2] for y in [10, 20]]", [11, 21, 12, 22]),
        ("[[x * y for x in [1, 2]] for y in [1, 2]]", [[1, 2], [2, 4]]),
        ("[a for a in [1, 2]] + [a]", [1, 2, 3]),
        ("[a for a in [a]]", [3]),
        ("[x for (x, [y, z]) in [[1, [2, 3]]]]", [1]),
        ("[k for k in place]", ["hall", "row", "items"]),
        ("[c for c in code]", ["x", "1"]),
        # f-strings
        ("f'{code}-{a:03d}'", "x1-003"),
        ("f'{b:.2f} {code!r:>6} {when:%Y-%m} {{}}'", "4.50   'x1' 2026-01 {}"),
        ("f'{[t for t in tags]}'", "['usb', 'red', 'usb']"),
        # Functions
        ("len(tags) + len(code) + len(place)", 8),
        ("str(a) + str(None) + str(b)", "3None4.5"),
        ("int('12') + int(b) + int('ff', 16)", 271),
        ("float('1.5')", 1.5),
        ("round(b) + round(1.25, 1) + round(15, ndigits=-1)", 4 + 1.2 + 20),
        ("min(a, b) + min([2, 1]) + min([], default=5)", 9),
        ("max(a, b, 1)", 4.5),
        ("max(tags)", "usb"),
        ("sum([1, 2], start=10)", 13),
        ("abs(-a)", 3),
        ("sorted(tags, reverse=True)", ["usb", "usb", "red"]),
        ("any(t == 'red' for t in tags)", True),
        ("all([])", True),
        # Methods
        ("code.upper().replace('X', 'yy')", "yy1"),
        ("' a '.strip().zfill(3)", "00a"),
        ("'-'.join(t for t in tags)", "usb-red-usb"),
        ("'a b  c'.split()", ["a", "b", "c"]),
        ("line.split(sep=',', maxsplit=1)", ["a", " b;c"]),
        ("'a=1'.partition('=')", ("a", "=", "1")),
        ("tags.count('usb') + tags.index('red')", 3),
        ("place.get('nope', 1)", 1),
        ("place.row.keys()", ["number"]),
        ("place.row.values()", [7]),
        ("code.startswith('x') and code.endswith('1')", True),
        ("re.split('[,;] *', line)", ["a", "b", "c"]),
        ("re.split('[,;] *', line, maxsplit=1)", ["a", "b;c"]),
        # Form of the text
        ("  a  ", 3),
        ("a\n  + b", 7.5),
        ("(a +\r\n b)", 7.5),
    ],
)
def test_values(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_names_are_the_properties_that_are_read() -> None:
    names = compile_expression("a + place.hall + sum(x * max for x in lines if re) + re.split(',', line)[0] + 'b'").names
    assert names == ("a", "line", "lines", "max", "place", "re")


@pytest.mark.parametrize(
    "text",
    [
        "none + 1", "1 / 0", "tags[5]", "place['x']", "a.b", "tags.price", "code.items()", "a.upper()", "len(a)", "int('x')", "sorted([1, 'a'])",
        "[x for x in a]", "[x for x, y in tags]", "code.zfill(2000)", "code.ljust(10 ** 9)", "'%1000d' % 5", "(-8) ** 0.5", "min([])", "len()",
        "'x' * 10 ** 9", "10 ** 9 * 'x'", "tags * 10 ** 7", "9 ** 9 ** 9", "2 ** 9000", "10 ** 5000", "round(5, -10 ** 9)", "sum([[1], [2]], [])",
        "sum(tags)", "float('1e400') * 'x'", "when.year", "f'{code:d}'", "re.split(',', a)", "{[1]: 2}", "{[1]}", "2.0 ** 10000", "int('f' * 5000, 16)",
        "f'{loose}'", "str(loose)",
    ],
)  # fmt: skip
def test_what_goes_wrong_raises(text: str) -> None:
    expression = compile_expression(text)
    with pytest.raises((TypeError, ValueError, KeyError, IndexError, ArithmeticError)):
        evaluate(expression, {**RECORD, "loose": {1}})


@pytest.mark.parametrize(
    ("text", "column", "fault"),
    [
        ("", 1, "invalid syntax"),
        ("a +", 4, "invalid syntax"),
        ("a = 1", 0, None),  # where exactly depends on the parser
        ("import os", 1, "invalid syntax"),
        ("a; b", 2, "invalid syntax"),
        ("(a", 1, "'(' was never closed"),
        ("\0", 0, None),
        ("\ud800", 1, None),
        ("'\ud800'", 1, None),
        ("lambda: 1", 1, "lambda cannot be used here"),
        ("(lambda: 1)()", 1, "only functions and methods can be called"),
        ("(x := 1)", 2, ":= cannot be used here"),
        ("[*tags]", 2, "* cannot be used here"),
        ("len(*tags)", 1, "* and ** cannot be used in calls"),
        ("len(**place)", 1, "* and ** cannot be used in calls"),
        ("{**place}", 1, "** cannot be used here"),
        ("a.__class__", 1, "the name __class__ cannot be used: it contains __"),
        ("__import__", 1, "the name __import__ cannot be used: it contains __"),
        ("x__y", 1, "the name x__y cannot be used: it contains __"),
        ("[1 for __a in tags]", 8, "the name __a cannot be used: it contains __"),
        ("1 + open('x')", 5, "the function open is not known"),
        ("eval('1')", 1, "the function eval is not known"),
        ("getattr(a, 'b')", 1, "the function getattr is not known"),
        ("place.hall()", 1, "the method hall is not known"),
        ("'{0.x}'.format(a)", 1, "the method format is not known"),
        ("code.format_map(place)", 1, "the method format_map is not known"),
        ("tags.append(1)", 1, "the method append is not known"),
        ("tags[0]()", 1, "only functions and methods can be called"),
        ("a()()", 1, "only functions and methods can be called"),
        ("[len(1) for len in tags]", 2, "the function len is not known"),
        ("sorted(tags, key=len)", 14, "the argument key is not known"),
        ("a & b", 1, "of the operators, + - * / // % ** can be used here"),
        ("a << 5", 1, "of the operators, + - * / // % ** can be used here"),
        ("a @ b", 1, "of the operators, + - * / // % ** can be used here"),
        ("~a", 1, "the operator ~ cannot be used here"),
        ("a is b", 6, "is can be used with None, True and False"),
        ("1 < a in tags", 1, "in and is cannot be part of a chain of comparisons"),
        ("await a", 1, None),
        ("[x async for x in tags]", 1, None),
        ("(yield a)", 2, "yield cannot be used here"),
        ("...", 1, "... cannot be used here"),
        ("1j", 1, "a complex number cannot be used here"),
        ("9" * 400, 1, "a number can have at most 300 digits"),
        ("9" * 3999, 1, "a number can have at most 300 digits"),
        ("a[1:2, 3]", 3, "a slice cannot be used here"),
        ("[1 for x.y in tags]", 8, "a loop needs a name for its element"),
        ("[1 for *x, y in tags]", 8, "a loop needs a name for its element"),
        ("re.sub('a', 'b', code)", 1, "of the module re, split can be used here"),
        ("re.split(code, line)", 1, "the pattern of re.split must be a string"),
        ("re.split('(', line)", 10, "the pattern of re.split is not valid: missing ), unterminated subpattern at position 0"),
        ("é + lambda: 1", 5, "invalid syntax"),
        ("ééé + {**a}", 7, "** cannot be used here"),
    ],
)
def test_what_is_refused(text: str, column: int, fault: str | None) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_expression(text)
    assert caught.value.line == 1 and (caught.value.column == column or column == 0)
    assert fault is None or caught.value.message == fault


def test_places_in_several_lines() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_expression("\n  a +\r\n  open(b)")
    assert (caught.value.line, caught.value.column) == (3, 3)


WORK: dict[str, Any] = {
    "many": ["x"] * 5000, "long": "x" * 1_000_000, "long2": "".join(["x"] * 1_000_000), "wide": "\u00e9" * 50_000, "lists": [[1, 2]] * 5000,
    "lists2": [[1, 2], *[[1, 2]] * 4999], "texts": ["x" * 5000 for _ in range(200)],
}  # fmt: skip


class TestLimits:
    def test_length(self) -> None:
        assert value("1" + " " * (MAX_CHARACTERS - 1)) == 1
        with pytest.raises(SchemaError, match="at most 4000 characters"):
            compile_expression("1" + " " * MAX_CHARACTERS)

    @pytest.mark.parametrize(
        "text", ["-" * 3900 + "1", "(" * 2000 + ")" * 2000, "not " * 999 + "1", "a" + ".b" * 1900, "[" * 150 + "]" * 150, "1" + "+1" * 1500, "f'{" * 90]
    )  # fmt: skip
    def test_depth(self, text: str) -> None:
        with pytest.raises(SchemaError):
            compile_expression(text)

    def test_a_sum_within_the_depth(self) -> None:
        assert value("+".join("1" * MAX_DEPTH)) == MAX_DEPTH

    def test_loops(self) -> None:
        loops = " ".join(f"for x{number} in tags" for number in range(MAX_LOOPS))
        assert len(value(f"[1 {loops}]")) == 3**MAX_LOOPS
        for text in (f"[1 {loops} for y in tags]", f"[[1 {loops}] for y in tags]", f"[1 for y in [1 {loops}]]"):
            with pytest.raises(SchemaError, match="at most 3 loops"):
                compile_expression(text)

    @pytest.mark.parametrize(
        "text",
        [
            "[1 for x in many for y in many]",
            "[long + x for x in many]",
            "[f'{long}{x}' for x in many]",
            "[long[1:] for x in many]",
            "[long.upper() for x in many]",
            "[str(many) for x in many]",
            "['nothing' in long for x in many]",
            "long.replace('x', long)",
            "long.join(many)",
            "''.join([long for x in many])",
            "[z + z + z for z in [y + y + y for y in [long * 9]]]",
            "re.split('y', long)",
            "[long.strip(long + 'y') for x in many]",
            "long.rfind(long)",
            "long.strip(long)",
            "long.rstrip('y' + long)",
            "[wide.upper() for x in many]",
            "[wide.isalpha() for x in many]",
            "[lists == lists2 for x in many]",
            "[x for x in many if long == long2]",
            "[lists < lists2 < 1 for x in many]",
            "[sorted(texts) for x in many]",
            "[max(texts) for x in many]",
            "[max(lists, lists2) for x in many]",
            "[texts.count(long) for x in many]",
            "[long in texts for x in many]",
            "[f'{lists}' for x in many]",
            "{long + x for x in many}",
            "[int(long) for x in many]",
            f"[[{', '.join(['x'] * 200)}] for x in many]",
            f"{{x: [{', '.join(['x'] * 200)}] for x in many}}",
            f"[x for x in many if x in [{', '.join(['x'] * 200)}]]",
            f"[y for x in many for y in [{', '.join(['x'] * 200)}]]",
            f"[str([{', '.join(['1.5'] * 100)}]) for x in many]",
        ],
    )
    def test_work_of_one_evaluation(self, text: str) -> None:
        expression = compile_expression(text)
        with pytest.raises(ValueError, match=r"too (much|long)"):
            evaluate(expression, WORK)

    def test_comparisons_with_constants_cost_nothing(self) -> None:
        expression = compile_expression("[x for x in many if long == 'short' or long < 'y']")
        assert len(evaluate(expression, WORK)) == 5000

    def test_what_is_usual_in_a_loop_is_within_the_budget(self) -> None:
        expression = compile_expression("', '.join([x.name + ': ' + str(x.count) for x in many if x.count > 1 and 'na' in x.name])")
        assert evaluate(expression, {"many": [{"name": "name", "count": 2}] * 5000}).count("name: 2") == 5000

    def test_texts_of_some_megabytes_are_searched(self) -> None:
        expression = compile_expression("long.count('some words in it')")
        assert evaluate(expression, {"long": "x" * 3_000_000}) == 0

    @pytest.mark.parametrize(
        ("text", "least"),
        [
            *[
                (f"text.{call}", 20_000 * 80 // 16 / 2)
                for call in ("find(part)", "count(part)", "partition(part)", "split(part)", "replace(part, '')")
            ],
            ("part in text", 20_000 * 80 // 16 / 2),
            ("f'{1.5:.999f}'", 1000),
            ("str(numbers)", 10_000),
            ("large * large", 100),
            ("large ** 4", 1000),
            ("large ** 4 // large ** 2", 2000),
            ("large ** 4 % large ** 2", 2000),
            ("str(large ** 4)", 2000 + 1900),
            ("f'{large ** 4}'", 2000 + 1900),
            ("str([large ** 4, large ** 4])", 2 * (2000 + 1900)),
            ("large ** 4 / large ** 4", 2 * 2000 + 1900),
            ("large // 3", 50 + 15),
            ("large / 7", 50 + 15),
            ("{'a': 1, 'b': 2}.items()", 10),
        ],
    )
    def test_the_work_of_a_part_is_counted(self, text: str, least: int) -> None:
        half = "x" * 20
        evaluate(
            compile_expression(text), {"text": "x" * 20_000, "part": f"{half}{half}y{half}{half}", "numbers": [1.5] * 1000, "large": 2**999}
        )
        assert BUDGET - meter.left >= least

    def test_the_next_evaluation_begins_anew(self) -> None:
        expression = compile_expression("[x for x in many]")
        for _ in range(3):
            assert len(evaluate(expression, {"many": [1] * 60_000})) == 60_000
