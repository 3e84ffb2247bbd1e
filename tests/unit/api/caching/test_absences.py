"""svc.api.caching.absences: a bounded memory."""

from svc.api.caching.absences import MOST, Absence, Absences


def test_the_oldest_is_forgotten_first() -> None:
    absences = Absences()
    for number in range(MOST + 5):
        absences.add(b"%d" % number, Absence(1, 2.0, 3.0))
    absences.add(b"10", Absence(2, 2.0, 3.0))
    absences.add(b"new", Absence(1, 2.0, 3.0))
    assert len(absences) == MOST and absences.find(b"5") is None and absences.find(b"6") is not None
    assert absences.find(b"10") == Absence(2, 2.0, 3.0)
    absences.forget(b"10")
    absences.forget(b"10")
    assert absences.find(b"10") is None
