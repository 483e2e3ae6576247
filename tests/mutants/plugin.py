"""Plugin of pytest that records which functions each test calls, or runs only chosen tests, the cheapest files first.

``SHARDMARK_RECORD=FILE`` appends one JSON line per test: its name, seconds, and the functions that ran in this process,
``PATH:QUALIFIED.NAME``. What a shared fixture calls counts for every later test of the file as well.
``SHARDMARK_CHOSEN=FILE`` names a JSON file, ``{"known": {test: seconds}, "chosen": [test, ...]}``: known tests that are
not chosen are left out; tests that nobody has recorded run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = os.environ.get("SHARDMARK_RECORD", "")
CHOSEN = os.environ.get("SHARDMARK_CHOSEN", "")
UNKNOWN_S = 1.0  # supposed seconds of a test that nobody has recorded


class Calls:
    """The code that ran since the last look, by a trace function that sees calls only."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}

    def start(self) -> None:
        """Begin to watch this thread and those that start later."""
        sys.settrace(self._trace)
        threading.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        self._codes[id(code)] = code

    def look(self) -> set[str]:
        """Return the functions of the project that ran, as ``PATH:QUALIFIED.NAME``, and forget them."""
        codes, self._codes = self._codes, {}
        root, tests = f"{ROOT}/", f"{ROOT}/tests/"
        names = {
            code.co_filename for code in codes.values() if code.co_filename.startswith("/")
        }  # none of "<frozen abc>"
        files = {name: os.path.realpath(name) for name in names}
        return {
            f"{file.removeprefix(root)}:{code.co_qualname.partition('.<locals>')[0]}"
            for code in codes.values()
            if (file := files.get(code.co_filename, "")).startswith(root) and not file.startswith(tests)
        }


def seconds() -> float:
    """CPU time so far, of programs that have ended as well."""
    return sum(os.times()[:4])


calls = Calls()
before: dict[str, set[str]] = defaultdict(set)  # what set-ups of a file called so far


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Write the line of a test that has passed."""
    if not RECORD:
        return (yield)
    calls.start()  # again, as an error in the trace function ends it, for example of too deep a recursion
    began = seconds()
    result = yield
    set_up: set[str] = item.stash.get(SET_UP, set())
    before[item.location[0]] |= set_up
    if item.stash.get(FAILED, False):
        calls.look()
        return result
    line = {
        "test": item.nodeid,
        "seconds": round(seconds() - began, 3),
        "functions": sorted(calls.look() | before[item.location[0]]),
    }
    with Path(RECORD).open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    return result


SET_UP = pytest.StashKey[set[str]]()
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test fails without any mutant, as on some machines: it can kill none."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Tell what fixtures call from what the test calls."""
    result = yield
    if RECORD:
        item.stash[SET_UP] = calls.look()
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out known tests that are not chosen; sort the files by the seconds of their tests."""
    if not CHOSEN:
        return
    told = json.loads(Path(CHOSEN).read_text())
    known, chosen = told["known"], set(told["chosen"])
    left = [item for item in items if item.nodeid in known and item.nodeid not in chosen]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]
    takes: dict[Path, float] = defaultdict(float)
    for item in items:
        takes[item.path] += known.get(item.nodeid, UNKNOWN_S)
    items.sort(key=lambda item: takes[item.path])
