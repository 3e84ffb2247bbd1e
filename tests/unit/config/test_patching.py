"""A changed document keeps the comments of its file, and is what it should be in any case."""

import random
from typing import Any

import pytest

from svc.config.document import changed, parse_marked, without_values
from svc.config.patching import patched_text

FILE = """\
# Configuration of the shop's server.
rootPath: /srv/svc   # on the fast disk

http:
  # behind the proxy
  port: 9926
  cors: true # for the studio
  corsAccessList: [null]
operationsApi: {network: {port: 9925, securePort: null}}
logging:
    level: "warn"
    rotation:
        maxSize: 64M

    # the end of logging
mqtt:
tls:
  - certificate: a.pem
  - certificate: b.pem
ü: {}
"""


def patched(text: str, **changes: Any) -> str:
    marked = parse_marked(text, "f")
    after = changed(marked.document, {name.replace("__", "."): value for name, value in changes.items()})
    result = patched_text(marked, after)
    assert parse_marked(result, "f").document == after
    return result


def test_values_are_replaced_where_they_stand() -> None:
    result = patched(
        FILE, http__port=80, http__cors=False, logging__level="info", http__corsAccessList=["https://a.example"], rootPath="/x y"
    )
    assert result == FILE.replace("9926", "80").replace("cors: true", "cors: false").replace('"warn"', "info").replace(
        "[null]", "['https://a.example']"
    ).replace("/srv/svc ", "/x y ")


def test_new_values_stand_behind_those_beside_them() -> None:
    assert patched(FILE, http__securePort=None) == FILE.replace("[null]\n", "[null]\n  securePort: null\n")
    assert patched(FILE, logging__file=False) == FILE.replace("64M\n", "64M\n    file: false\n")
    assert patched(FILE, operationsApi__network__cors=True) == FILE.replace("null}}", "null, cors: true}}")
    assert patched(FILE, ü__a=1) == FILE.replace("ü: {}", "ü: {a: 1}")
    assert patched(FILE, mqtt__network__port=1) == FILE.replace("mqtt:\n", "mqtt: {network: {port: 1}}\n")
    assert patched(FILE, storage__compression__threshold="8K").startswith(FILE + "storage:\n  compression:\n")


def test_a_file_without_an_end_of_line_and_an_empty_one() -> None:
    assert patched("a: 1", b=2) == "a: 1\nb: 2"
    assert patched("a: 1", a=2) == "a: 2"
    assert patched("", a=1) == "a: 1\n"
    assert patched("# only this", a=1) == "# only this\na: 1\n"
    assert patched("# only this\n", a=1) == "# only this\na: 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  text\n  more\n",
        "a: &x 1\nb: *x\n",
        "a:\n- 1\n- 2\n",
        "<<: {a: 1}\n",
        "a: [1,\n  2]\n",
        "--- \na: 1\n...\n",
        "{a: 1,\n b: 2}\n",
        "a: 'x\n\n  y'\n",
    ],
)
def test_what_is_difficult_is_written_anew(text: str) -> None:
    patched(text, a=5)
    patched(text, c=5)
    patched(text, c__d=[1, {"e": None}])


def removed(text: str, *names: str) -> str:
    marked = parse_marked(text, "f")
    after = without_values(marked.document, names)
    result = patched_text(marked, after)
    assert parse_marked(result, "f").document == after
    return result


def test_keys_that_go_leave_the_comments_of_others() -> None:
    assert removed(FILE, "http.cors") == FILE.replace("  cors: true # for the studio\n", "")
    assert removed(FILE, "http.port", "http.corsAccessList") == FILE.replace("  port: 9926\n", "").replace("  corsAccessList: [null]\n", "")
    assert removed(FILE, "logging.level") == FILE.replace('    level: "warn"\n', "")
    assert removed(FILE, "logging.rotation.maxSize") == FILE.replace("    rotation:\n        maxSize: 64M\n", "")
    assert removed(FILE, "mqtt") == FILE.replace("mqtt:\n", "")
    assert removed(FILE, "tls") == FILE.replace("tls:\n  - certificate: a.pem\n  - certificate: b.pem\n", "")
    assert removed(FILE, "operationsApi.network.port") == FILE.replace("port: 9925, ", "")
    assert removed(FILE, "operationsApi.network.securePort") == FILE.replace(", securePort: null", "")
    assert removed(FILE, "operationsApi.network.port", "operationsApi.network.securePort") == FILE.replace(
        "operationsApi: {network: {port: 9925, securePort: null}}\n", ""
    )
    assert removed(FILE, "ü") == FILE.replace("ü: {}\n", "")
    assert removed("a: 1\nb: 2", "b") == "a: 1\n"
    assert removed(FILE, "http.nothing", "nothing.at.all") == FILE


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "{a: 1, b: 2}\n",
        "{a: 1,\n b: 2}\n",
        "a: |\n  text\n\nb: 1\n",
        "a: &x 1\nb: *x\n",
        "--- \na: 1\nb: 2\n...\n",
        "a: 1\na: 2\nb: 1\n",
        "? a\n: 1\nb: 2\n",
    ],
)
def test_keys_that_go_from_difficult_files(text: str) -> None:
    removed(text, "a")


def test_odd_values() -> None:
    for value in (
        "",
        " ",
        "#",
        "a: b",
        "- x",
        "null",
        "true",
        "1",
        "ü\n\t",
        "'",
        '"',
        "x" * 500,
        [],
        {},
        [{"a": "b, c"}],
        1e308,
        -0.5,
        "\u2028",
        "%",
        "@a",
        "!x",
    ):
        patched(FILE, http__port=value)
        patched(FILE, operationsApi__network__port=value)
        patched(FILE, http__new=value)
        patched(FILE, operationsApi__network__new=value)


def test_chance_changes() -> None:
    random_ = random.Random(7)
    names = [
        "rootPath",
        "http.port",
        "http.x",
        "logging.level",
        "logging.rotation.maxSize",
        "logging.rotation.y",
        "mqtt",
        "mqtt.a.b",
        "tls",
        "new.a",
    ]
    values: list[Any] = [1, None, "x", "a: b", [1, 2], {"k": [None]}, True, "10M"]
    text = FILE
    for _ in range(150):
        marked = parse_marked(text, "f")
        after = changed(marked.document, {name: random_.choice(values) for name in random_.sample(names, 2)})
        text = patched_text(marked, after)
        assert parse_marked(text, "f").document == after
        text = removed(text, random_.choice(names))
