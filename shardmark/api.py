"""The functions of the public API.

The referee of the command line performs the runs: each is a process tree under limits, and every solution is verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, overload

# Isolated runs see only part of the project, and must be able to import a solver file that names these functions.
if TYPE_CHECKING:
    from typing import Unpack

    from shardmark.harness.results.ranking import Tables
    from shardmark.harness.verify import certificates
    from shardmark.instances import hybrid, intraop, pipeline, placement, scheduling
    from shardmark.instances.evaluator import Evaluator
    from shardmark.live import Show
    from shardmark.outcomes import CheckResult, RunResult

#: A solver or bound: its name, or the function that a file declares.
Method: TypeAlias = str | Callable[..., Any]
#: An instance: a file, an id of the catalog, or what `load` returned.
Reference: TypeAlias = "str | os.PathLike[str] | Evaluator"
#: The value of a parameter of a method, or of an option of an instance.
Value: TypeAlias = str | int | float
#: Files and folders with more solvers, one or several.
Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class RunOptions(TypedDict, total=False):
    """Limits and seed of a run: keywords of `solve`, `bound` and `check`.

    ``timeout``       wall time in seconds; default: the catalog's limit for the instance, or 10
    ``memory``        MiB for all processes of the run; default: 4096
    ``cores``         number of CPUs; default: 1
    ``cpu``           CPU time in seconds; default: as much as the cores can supply
    ``processes``     processes alive at the same time; default: 512
    ``output_limit``  output in MiB, printed, reported and written; default: 256
    ``seed``          seed of the random numbers; default: 0
    ``limits``        backend that enforces the limits: "auto" (the default), "benchexec" or "posix"
    ``isolation``     "auto" (the default), or "none" for a run that can access all that you can
    ``progress``      called about ten times per second with a `shardmark.live.Progress`; if it returns a sentence,
                      ends the run, which keeps what it has found
    """

    timeout: float | None
    memory: float
    cores: int
    cpu: float | None
    processes: int
    output_limit: float
    seed: int
    limits: str
    isolation: str
    progress: Show | None


@overload
def load(
    instance: str | os.PathLike[str], *, track: Literal["intraop"], **options: Value | None
) -> intraop.Instance: ...
@overload
def load(
    instance: str | os.PathLike[str], *, track: Literal["pipeline"], **options: Value | None
) -> pipeline.Instance: ...
@overload
def load(
    instance: str | os.PathLike[str], *, track: Literal["placement"], **options: Value | None
) -> placement.Instance: ...
@overload
def load(
    instance: str | os.PathLike[str], *, track: Literal["scheduling"], **options: Value | None
) -> scheduling.Instance: ...
@overload
def load(instance: str | os.PathLike[str], *, track: Literal["hybrid"], **options: Value | None) -> hybrid.Instance: ...
@overload
def load(instance: str | os.PathLike[str], *, track: str | None = None, **options: Value | None) -> Any: ...
def load(instance: str | os.PathLike[str], *, track: str | None = None, **options: Value | None) -> Any:
    """Read an instance: a frozen dataclass of NumPy arrays, such as `shardmark.instances.pipeline.Instance`.

    ``instance`` is a file, or an id of the catalog (``shardmark list instances``). ``track`` is recognised from the
    content if it is None; type checkers know the class of the instance if it is given. ``options`` are the track's,
    such as ``stages=8``. Raises InputError for bad input.

    >>> load("diamond").nodes
    4
    """
    refuse_inside_runs()
    from shardmark.problems import find_problem, remember

    return remember(find_problem(instance, track, options))


def solve(
    instance: Reference,
    solver: Method | None = None,
    *,
    command: str | None = None,
    params: Mapping[str, Value] | None = None,
    solver_path: Paths = (),
    certificate: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a solver on an instance, under limits, and verify every solution that it reports.

    ``instance``     a file, an id of the catalog, or what `load` returned
    ``solver``       a name (``shardmark list solvers``), or a function declared by ``@solver`` in a file
    ``command``      instead of a solver: a program that prints its solutions as JSON lines
    ``params``       values for parameters of the solver; "@FILE" reads a value from a file
    ``solver_path``  files and folders with more solvers
    ``certificate``  True asks for a certificate of the solver's lower bound, for `check_certificate`
    ``options``      limits and seed, see `RunOptions`

    The run ends early once a lower bound, its own or one known before, proves its cost optimal: no run can find better,
    and its ``reason`` names the bound. The solver itself is told no such bound. A run that fails is a result, and its
    ``status`` says how. Raises InputError for bad input.

    >>> solve("chain", "random-1", timeout=30).status
    'ok'
    """
    refuse_inside_runs()
    from shardmark import runs
    from shardmark.harness.campaign.discover import from_command
    from shardmark.problems import Known, problem_of

    _require_known("solve", options)
    if (solver is None) == (command is None):
        raise TypeError("solve() expects either a solver or a command")
    with problem_of(instance) as problem:
        track = problem.instance.track
        if command is not None:
            method = from_command(command, track)
        else:
            method = runs.method_of(solver, track, "solver", solver_path)
        known = Known.of(problem)
        with_values = runs.with_params(method, params)
        row = runs.run(problem, with_values, known=known.greatest_bound(), certify=certificate, **options)
        found = runs.result_of(problem, runs.judged_against(row, known), known)
        lower_bound, bound_from = known.greatest_bound(found.cost, found)
        grade = known.grade(track, lower_bound, found.cost, runs.evidence_of(row))
        return replace(found, lower_bound=lower_bound, bound_from=bound_from, grade=grade)


def bound(
    instance: Reference,
    method: Method,
    *,
    params: Mapping[str, Value] | None = None,
    solver_path: Paths = (),
    certificate: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a method that proves a lower bound of an instance.

    ``instance``     a file, an id of the catalog, or what `load` returned
    ``method``       a bound (``shardmark list bounds``), a solver that proves bounds, or a function declared as one
    ``params``       values for parameters of the method, as of `solve`
    ``solver_path``  files and folders with more methods
    ``certificate``  True asks for a certificate of the bound, for `check_certificate`
    ``options``      limits and seed, see `RunOptions`

    The ``lower_bound`` of the result is what the method proved, None if it proved nothing; bounds that were known
    before do not count, but a bound above the cost of the records has the status "contradiction". Raises InputError
    for bad input. As a decorator, ``@bound(track=...)`` declares a method, see below.

    >>> bound("chain", "simple", timeout=30).status
    'ok'
    """
    refuse_inside_runs()
    _require_known("bound", options)
    from shardmark import runs
    from shardmark.problems import Known, problem_of

    with problem_of(instance) as problem:
        found = runs.method_of(method, problem.instance.track, "bound", solver_path)
        row = runs.of_bound(runs.run(problem, runs.with_params(found, params), certify=certificate, **options))
        known = Known.of(problem)
        return runs.result_of(problem, runs.judged_against(row, known), known)


def check(
    instance: Reference,
    solution: Any,
    *,
    method: Method | None = None,
    solver_path: Paths = (),
    **options: Unpack[RunOptions],
) -> CheckResult:
    """Judge a solution: is it feasible, what is its cost, and how far is it from the optimum at most?

    ``instance``  a file, an id of the catalog, or what `load` returned
    ``solution``  plain JSON as in the track's solution files (NumPy arrays are accepted), or the path of such a file
    ``method``    a bound, or a solver that proves bounds; it runs if the solution is feasible, to prove a gap

    The other arguments are those of `solve`. A lower bound above the verified cost is ignored, and so is a bound
    of the method above the cost of the record; ``contradiction`` and the ``status`` of the run then say so.

    >>> check("diamond", [0, 0, 0, 0]).cost
    141
    """
    refuse_inside_runs()
    from shardmark.harness.verify import verify
    from shardmark.outcomes import CheckResult
    from shardmark.problems import Known, nondefault_options, problem_of, solution_of

    _require_known("check", options)
    if options and method is None:
        raise TypeError("check() takes limits and a seed only with a method")
    with problem_of(instance) as problem:
        found = run = proof = None
        if method is not None:
            from shardmark import runs

            found = runs.method_of(method, problem.instance.track, "bound", solver_path)
        verdict = verify(problem.instance, solution_of(solution, problem.instance))
        known, cost = Known.of(problem), verdict.cost if verdict.feasible else None
        if found is not None and verdict.feasible:
            row = runs.of_bound(runs.run(problem, found, **options))
            proof = runs.evidence_of(row)
            run = runs.result_of(problem, runs.judged_against(row, known, cost), known)
        lower_bound, bound_from = known.greatest_bound(cost, run)
        best_known, best_from = known.best
        return CheckResult(
            instance=problem.id,
            track=problem.instance.track,
            options=nondefault_options(problem),
            feasible=verdict.feasible,
            cost=verdict.cost,
            violations=verdict.violations,
            facts=verdict.facts,
            lower_bound=lower_bound,
            bound_from=bound_from,
            grade=known.grade(problem.instance.track, lower_bound, cost, proof),
            run=run,
            best_known=best_known,
            best_from=best_from,
            contradiction=known.contradiction(cost),
        )


def check_certificate(
    instance: Reference, certificate: str | os.PathLike[str] | Mapping[str, Any]
) -> certificates.Finding:
    """Check the certificate of a lower bound, in exact arithmetic and by code that shares nothing with the solvers.

    ``instance``     a file, an id of the catalog, or what `load` returned
    ``certificate``  a file, or the ``certificate`` of a run

    ``holds`` of the result is True if the bound is proven; ``proven`` is the greatest bound that is proven. Raises
    InputError for a file that is no certificate.
    """
    refuse_inside_runs()
    from shardmark.harness.verify import certificates
    from shardmark.problems import problem_of

    document = certificates.require(certificate, "certificate") if isinstance(certificate, Mapping) else None
    with problem_of(instance) as problem:
        told = certificates.read(certificate) if document is None else document  # type: ignore[arg-type]
        return certificates.check(problem.instance, problem.checksum, told)


def results(folder: str | os.PathLike[str] = "results") -> Tables:
    """The scored runs of a results folder: polars data frames, such as ``.runs``, ``.instances`` and ``.solvers``.

    Raises InputError for a folder without results.
    """
    refuse_inside_runs()
    from shardmark.harness.results.database import Store
    from shardmark.harness.results.ranking import tables

    with closing(Store.open(Path(os.fsdecode(folder)))) as store:
        return tables(store)


def _require_known(function: str, options: Mapping[str, Any]) -> None:
    """TypeError for keywords that are none of `RunOptions`."""
    unknown = sorted(options.keys() - RunOptions.__annotations__.keys())
    if unknown:
        from shardmark.instances.catalog import near_miss

        known = RunOptions.__annotations__
        expected = f"expected {', '.join(known)}{near_miss(unknown[0], known)}; options of an instance go to load()"
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}, {expected}")


def refuse_inside_runs() -> None:
    """Raise InputError in a process started by the referee, such as a run that imports a script that starts runs."""
    from shardmark.harness.sandbox.contract import SUPERVISOR_VARIABLE
    from shardmark.instances import InputError

    if SUPERVISOR_VARIABLE in os.environ:
        expected = 'in a solver file, put calls under `if __name__ == "__main__":`'
        raise InputError("a run cannot call shardmark", "", expected)
