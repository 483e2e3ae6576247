"""The public API: plan models, read instances, run solvers and bounds under the referee, verify solutions.

>>> import shardmark as sm
>>> instance = sm.load("chain")
>>> found = sm.solve(instance, "random-100", timeout=30)
>>> found.cost
11.0
>>> sm.bound(instance, "exact", timeout=30).optimal
True

A solver file imports its decorator from here as well: ``from shardmark import solver``. Names are imported on first
use, so that such a file loads only what it needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    __version__: str

    from typing import Unpack

    from shardmark.api import (
        Method,
        Paths,
        Reference,
        RunOptions,
        Value,
        check,
        check_certificate,
        load,
        results,
        solve,
    )
    from shardmark.instances import InputError
    from shardmark.outcomes import CheckResult, RunResult
    from shardmark.plans.plan import Plan, plan
    from shardmark.solvers.registry import Declined, Function, LocalRun, Run, solver

__all__ = [
    "CheckResult",
    "Declined",
    "InputError",
    "LocalRun",
    "Plan",
    "Run",
    "RunResult",
    "bound",
    "check",
    "check_certificate",
    "load",
    "plan",
    "results",
    "solve",
    "solver",
]

#: The module that each name comes from; `bound` is defined here.
SOURCES: Mapping[str, str] = {
    **dict.fromkeys(["check", "check_certificate", "load", "results", "solve"], "shardmark.api"),
    **dict.fromkeys(["CheckResult", "RunResult"], "shardmark.outcomes"),
    **dict.fromkeys(["Plan", "plan"], "shardmark.plans.plan"),
    **dict.fromkeys(["Declined", "LocalRun", "Run", "solver"], "shardmark.solvers.registry"),
    "InputError": "shardmark.instances.errors",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up only if asked for: in a checkout it names the commit
        from shardmark.harness.campaign import host

        return host.version()
    if name not in SOURCES:
        raise AttributeError(f"module 'shardmark' has no attribute {name!r}")
    return getattr(importlib.import_module(SOURCES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


@overload
def bound(
    track: str,
    *,
    source: str = "",
    name: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    deterministic: bool = True,
) -> Callable[[Function], Function]: ...


@overload
def bound(
    instance: Reference,
    method: Method,
    *,
    params: Mapping[str, Value] | None = None,
    solver_path: Paths = (),
    certificate: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult: ...


def bound(*arguments: Any, **options: Any) -> Any:
    """Prove a lower bound, ``bound(instance, method)``, or declare a bound method, ``@bound(track=...)``.

    ``bound(instance, method, *, params=None, solver_path=(), certificate=False, **options)`` runs a bound of the
    instance's track, or a solver that proves bounds as well, and returns a `RunResult` whose ``lower_bound`` the method
    proved. Its arguments are those of `solve`.

    >>> bound("chain", "simple", timeout=30).status
    'ok'

    ``@bound(track=..., source=..., name=..., variants=..., deterministic=...)`` declares a function as `solver` does.
    """
    if len(arguments) > 1 or "method" in options:
        from shardmark.api import bound as prove

        return prove(*arguments, **options)
    from shardmark.instances import TRACKS
    from shardmark.solvers.registry import bound as declare

    if arguments and arguments[0] not in TRACKS:
        raise TypeError("bound() expects an instance and a method, or, as a decorator, a track")
    return declare(*arguments, **options)
