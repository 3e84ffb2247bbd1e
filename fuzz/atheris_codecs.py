"""The codecs and the query language again, guided by coverage: `pip install -e .[fuzz]`, then

    python fuzz/atheris_codecs.py content                       until something fails, or Ctrl-C
    python fuzz/atheris_codecs.py query -max_total_time=60      arguments of libFuzzer follow the name

The invariants are those of `fuzz_content` and `fuzz_query`; a failing input is a file that these targets take (python fuzz/fuzz_content.py FILE).
Inputs that reach something new are kept in a directory of their own beside the corpus, which starts with the corpus.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["svc.content", "svc.query", "svc.store.values.conversion", "svc.store.values.records"]):
    from fuzz import fuzz_content, fuzz_query

TARGETS = {"content": fuzz_content, "query": fuzz_query}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        print(f"usage: {sys.argv[0]} {'|'.join(TARGETS)} [argument of libFuzzer ...]", file=sys.stderr)
        return 2
    target = TARGETS[sys.argv.pop(1)]
    grown = target.CORPUS.with_name(f"{target.CORPUS.name}-grown")
    grown.mkdir(parents=True, exist_ok=True)
    atheris.Setup([*sys.argv, str(grown), str(target.CORPUS), f"-artifact_prefix={target.CORPUS}/failed-"], target.check)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
