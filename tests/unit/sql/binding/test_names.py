"""Names and labels."""

from hypothesis import given
from hypothesis import strategies as st

from svc.sql.binding.names import Labels, Names, names_for_sqlite, numbered

NAMES = st.lists(st.sampled_from(["id", "ID", "id1", "id2", "a", "id:1", "A:1", "ß", "SS", "ä"]), max_size=12)


@given(NAMES)
def test_numbered_names_are_unique_and_the_first_keeps_its_own(names):
    found = numbered(names)
    assert len(set(found)) == len(found) == len(names)
    for index, name in enumerate(names):
        assert found[index].startswith(name)
        if name not in names[:index]:
            assert found[index] == name


@given(NAMES)
def test_names_for_sqlite_differ_in_more_than_case(names):
    found = names_for_sqlite(numbered(names))
    assert len({name.lower() for name in found}) == len(names)


@given(NAMES)
def test_labels_are_unique(names):
    labels = Labels()
    found = [labels.label(name) for name in names]
    assert len({label.lower() for label in found}) == len(names)


def test_names_in_any_case():
    names: Names[int] = Names()
    for value, name in enumerate(("a", "B", "A", "b", "a")):
        names.add(name, value)
    assert [names.get(name) for name in ("a", "A", "b", "B", "c")] == [0, 2, 3, 1, None]
    names = Names()
    names.add("Äb", 1)
    assert names.get("äB") == 1
    assert list(names) == ["Äb"]
