"""The summary of a review: what it may hold, and its validation. Standard library only.

A summary is JSON that anybody may have written: the workflow that comments on a pull request gets it from a job that
ran the pull request's code. It holds numbers, words of fixed lists and names of a few characters, and no other text;
`read` refuses everything else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

FORMAT = "shardmark/review/1"
MOST_BYTES = 1 << 20  # of a summary
LARGEST = 1e300  # absolute value of a number
LONGEST_NAME = 100  # characters of a solver's or an instance's name

#: Ratios to the best known cost at which a performance profile is shown.
RATIOS = (1.0, 1.001, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0)

#: Outcomes: a check failed; all passed; there was nothing of a kind that is reviewed.
PASSED, FAILED, UNREVIEWED = "passed", "failed", "unreviewed"
YES, NO, UNTESTED = "yes", "no", "not tested"

#: Why a file of a pull request is not taken over, in words; those of `REFUSED` fail a review.
REASONS = {
    "outside": "not a solver, an instance or a record: a maintainer has to look",
    "link": "is a symbolic link or a submodule",
    "executable": "is executable",
    "name": "has a name that files of its kind do not have",
    "shadows": "has the name of a Python module",
    "large": "is too large",
    "changes": "changes or deletes a file of the project",
    "rewrites": "changes earlier lines of a file to which lines may only be added",
    "malformed": "has lines that cannot be read",
    "withdraws": "withdraws bounds: a maintainer has to look",
    "code at import": "runs code when it is imported",
}
REFUSED = tuple(reason for reason in REASONS if reason not in ("outside", "withdraws"))

#: Ends of a run, see `shardmark.harness.results.schema`, with what a reader should know.
STATUSES = {
    "ok": "kept to the rules",
    "declined": "declined the instance",
    "none": "reported nothing that counts",
    "timeout": "reached its time limit",
    "infeasible": "reported only infeasible solutions",
    "misclaim": "claimed a lower cost than the referee found for its solution",
    "contradiction": "claimed a lower bound above a cost that is known",
    "error": "raised an error, or broke the protocol",
    "crash": "its process crashed or ended without saying that it was done",
    "import": "its file cannot be imported",
    "memory": "used more memory than its limit",
    "cpu": "used more CPU time than its limit",
    "processes": "had more processes at once than its limit",
    "output": "wrote more than its limit",
    "killed": "was killed from outside",
    "lost": "ended its supervisor",
}

#: Checks of a solver; the first eleven are those of `shardmark submit`.
CHECKS = (
    *("can be imported", "name is free", "module docstring", "description", "source", "solves", "bounds"),
    *("accepts an instance", "is repeatable", "meets the deadline", "stays on one core", "stays within memory"),
    *("is in the folder of its track", "runs end well", "bounds hold", "submission is readable"),
)

#: What a file uses that few solvers need; a reader of its code begins there.
WATCHED = (
    *("builtins", "ctypes", "gc", "importlib", "inspect", "io", "mmap", "multiprocessing", "os", "pathlib", "pickle"),
    *("shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "urllib"),
    *("open", "eval", "exec", "compile", "__import__", "globals", "getattr", "setattr"),
)

#: Results of claims: costs and bounds that a submission or a record says.
CLAIMS = {
    "confirmed": "found again",
    "not confirmed": "not found again, in two runs",
    "claimed": "cannot be checked here: graded a claim",
    "wrong": "refuted by the referee",
    "no improvement": "not better than the record",
    "absent": "its instance is not at hand",
}
#: Checks of an instance.
OF_INSTANCE = ("entry is valid", "file can be read", "file is the entry's", "is solved", "published bound holds")

_SHA = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(rf"[a-z0-9][a-z0-9.-]{{0,{LONGEST_NAME - 1}}}")
_PATH = re.compile(r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}(/\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}){0,9}")
_DIVISION = re.compile(r"[a-z0-9 ,.=-]{0,80}")
UNUSUAL = "(unusual name)"  # stands for a path that does not fit

_Number, _Count = object(), object()
_CHECK = {"check": CHECKS, "instance": (None, _NAME), "passed": (YES, NO, UNTESTED), "status": (None, *STATUSES)}
_CLAIM = {"instance": _NAME, "kind": ("cost", "bound"), "claimed": _Number, "found": (None, _Number)}
_SCHEMA: Mapping[str, Any] = {
    "format": (FORMAT,),
    "base": _SHA,
    "head": _SHA,
    "seed": _Count,
    "suite": _NAME,
    "drawn": [_NAME],
    "outcome": (PASSED, FAILED, UNREVIEWED),
    "taken": [(UNUSUAL, _PATH)],
    "left": [{"path": (UNUSUAL, _PATH), "reason": tuple(REASONS)}],
    "solvers": [
        {
            "name": _NAME,
            "track": _NAME,
            "kind": ("solver", "bound"),
            "uses": [WATCHED],
            "checks": [_CHECK],
            "runs": [
                {
                    "instance": _NAME,
                    "status": tuple(STATUSES),
                    "value": (None, _Number),
                    "best_known": (None, _Number),
                    "score": (None, _Number),
                }
            ],
            "ranking": [
                {
                    "division": _DIVISION,
                    "rank": _Count,
                    "solver": _NAME,
                    "score_sum": _Number,
                    "solved": _Count,
                    "instances": _Count,
                }
            ],
            "profile": [{"division": _DIVISION, "solver": _NAME, "shares": [_Number]}],
            "claims": [{**_CLAIM, "result": tuple(CLAIMS)}],
        }
    ],
    "instances": [
        {
            "instance": _NAME,
            "track": _NAME,
            "checks": [{"check": OF_INSTANCE, "passed": (YES, NO, UNTESTED)}],
            "solved_by": _Count,
            "tried_by": _Count,
        }
    ],
    "records": [{**_CLAIM, "result": tuple(CLAIMS)}],
}


class InvalidSummaryError(ValueError):
    """A summary with anything in it that a summary does not have; one sentence, which quotes nothing of it."""


def read(content: bytes) -> dict[str, Any]:
    """Return the summary in a file's content; InvalidSummaryError for anything else."""
    if len(content) > MOST_BYTES:
        raise InvalidSummaryError(f"expected at most {MOST_BYTES} bytes, found {len(content)}")
    try:
        summary = json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidSummaryError("expected JSON in UTF-8") from None
    require(summary)
    found: dict[str, Any] = summary
    return found


def require(value: Any, schema: Any = _SCHEMA, place: str = "summary") -> None:
    """Raise InvalidSummaryError unless a value fits a schema.

    A schema is an object with a schema per key, all required; a list with the schema of its elements; a tuple of
    alternatives, words or schemas; a pattern for a whole text; `_Number` or `_Count`.
    """
    if isinstance(schema, Mapping):
        if not isinstance(value, dict) or value.keys() != schema.keys():
            raise InvalidSummaryError(f"{place}: expected an object with the keys {', '.join(schema)}")
        for key, expected in schema.items():
            require(value[key], expected, f"{place} {key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise InvalidSummaryError(f"{place}: expected a list")
        for at, element in enumerate(value):
            require(element, schema[0], f"{place} {at}")
    elif not _fits(value, schema):
        raise InvalidSummaryError(f"{place}: expected {_words(schema)}")


def _fits(value: Any, schema: Any) -> bool:
    """Return True if a single value fits: a tuple of alternatives, a pattern, a number, or one fixed word."""
    if isinstance(schema, tuple):
        return any(_fits(value, each) for each in schema)
    if isinstance(schema, re.Pattern):
        return isinstance(value, str) and schema.fullmatch(value) is not None
    if schema in (_Number, _Count):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if schema is _Count:
            return whole and 0 <= value < 1 << 63
        return (whole or (isinstance(value, float) and math.isfinite(value))) and abs(value) <= LARGEST
    return type(value) is type(schema) and bool(value == schema)


def _words(schema: Any) -> str:
    if isinstance(schema, tuple):
        return " or ".join(map(_words, schema))
    if isinstance(schema, re.Pattern):
        return "a name of its kind"
    return {_Number: "a finite number", _Count: "a whole number of at least 0", None: "null"}.get(schema, repr(schema))


def shown_path(name: bytes) -> str:
    """Return the path of a file if it has usual characters only, else `UNUSUAL`."""
    text = name.decode(errors="replace")
    return text if _PATH.fullmatch(text) and len(text) <= 200 else UNUSUAL


def _refuse(constant: str) -> None:
    raise ValueError(constant)
