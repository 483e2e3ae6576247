"""Commands about one instance: solve, check, bound and info."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark import api
from shardmark.api import RunOptions
from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.commands.certificates import CERTIFICATE, check_certificate, write_certificate
from shardmark.cli.options import FAULTY, Answer, Command
from shardmark.cli.output import kept, tell, write_document
from shardmark.cli.terminal import printable
from shardmark.cli.watching import Watching, watching
from shardmark.harness.sandbox.contract import DEFAULT_TIMEOUT_S
from shardmark.instances import InputError
from shardmark.instances.errors import UnknownOption

if TYPE_CHECKING:
    from shardmark.outcomes import CheckResult, RunResult


#: `check` names the methods that prove bounds if the gap is larger, as a fraction.
WEAK_GAP = 0.01


def _add_run(sub: argparse.ArgumentParser, output: str) -> None:
    """Add the options of one run on one instance; ``output`` says what its file is for."""
    shared.add_output(sub, output)
    words = "file for a certificate of the lower bound, *.cert.json.gz, which `check` takes"
    sub.add_argument("--certificate", type=values.path, metavar="FILE", help=words)
    shared.add_quiet(sub)
    shared.add_instance(sub)
    shared.add_limits(sub, DEFAULT_TIMEOUT_S)


def solve_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `solve`."""
    method = sub.add_argument_group("the solver")
    who = method.add_mutually_exclusive_group(required=True)
    who.add_argument("-s", "--solver", metavar="NAME", help="a solver, from `shardmark list solvers`")
    who.add_argument("--command", dest="command_line", metavar="CMD", help="a program, started as `CMD FILE SECONDS`")
    shared.add_settings(method)
    _add_run(sub, "file for the best solution")


def run_solve(options: argparse.Namespace) -> Answer:
    """Run a solver on an instance, under limits.

    ``lower_bound`` is the greatest bound known. ``bound_from`` names its source: the instance's simple bound (see
    `info`), a publication, the records, or the solver. ``grade`` is "checked" if a certificate proves the bound,
    "agreed" if methods that share no code do, else "claimed". ``gap`` is cost / bound - 1: at 0.5 the cost may be 1.5
    times the optimum; at 0 it is proven optimal. If a cost was published or is in the records, ``best_known`` is the
    least of these, and ``over_best`` is cost / best_known - 1.

    The run ends as soon as a bound from any source proves its cost optimal; ``reason`` then names the bound. Ctrl-C
    ends it too, and solutions found until then count.

    The exit status is 0 if the solver found a feasible solution, even if a limit ended it later; 1 if it found none; 3
    if it found one but crashed, failed or made a claim that was refuted. The solution is then still shown and written,
    and standard error explains what happened.
    """
    from shardmark.harness.campaign.settings import by_name

    shared.check_settings(options)
    sources = [options.instance, *shared.solver_files(options)]
    shared.require_outputs(options.output, options.certificate, sources=sources)
    instance = load_named(options)
    with watching(quiet=options.quiet) as watch:
        found = api.solve(
            instance,
            options.solver,
            command=options.command_line,
            params=by_name(options.set),
            solver_path=options.solver_path,
            certificate=options.certificate is not None,
            **limits_of(options, watch),
        )
    print_failure(found)
    print_contradiction(found)
    print_infinity(found)
    answer = {
        "instance": found.instance,
        **found.options,
        "solver": found.method,
        "status": found.status,
        "reason": found.reason,
        "feasible": found.feasible,
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "bound_from": found.bound_from,
        "grade": found.grade,
        "gap": found.gap,
        "optimal": found.optimal,
        **best_known(found),
        **measured(found),
    }
    if options.output and found.solution is not None:
        with kept(answer):
            write_document(options.output, found.solution, "the solution")
    write_certificate(found, options, answer)
    return watch.status(exit_status(found.cost is not None, has_failed(found))), answer


def check_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `check`."""
    shared.add_quiet(sub)
    shared.add_instance(sub)
    words = "a JSON file; - for standard input; or a certificate of a lower bound, *.cert.json.gz"
    sub.add_argument("solution", type=values.path_text, metavar="SOLUTION", help=words)
    method = sub.add_argument_group("the method")
    method.add_argument(
        "-m", "--method", metavar="NAME", help="run this bound method, or solver that proves bounds, to get a gap"
    )
    shared.add_solver_path(method)
    shared.add_limits(sub, DEFAULT_TIMEOUT_S)


def run_check(options: argparse.Namespace) -> Answer:
    """Verify a solution and bound its distance from the optimum, or check the certificate of a lower bound.

    A certificate is checked in exact arithmetic. ``proven`` is True if it proves its ``lower_bound``, and
    ``checked_bound`` is the greatest bound that it proves. ``grade`` is that of its ``lower_bound``: "checked" if it is
    proven, else "claimed", and then the exit status is 1.

    With --method, a bound method or a solver that proves bounds runs as well, if the solution is feasible;
    ``method_cost`` is the cost of its best solution, which is not saved (`solve` does). A bound above the verified cost
    of a feasible solution is ignored. ``bound_from`` names the source of the greatest bound: the instance's simple
    bound (see `info`), a publication, the records, or the method; ``grade`` is "checked", "agreed" or "claimed", as of
    `solve`. ``gap`` is cost / bound - 1, and 0 if the cost is proven optimal. If a cost was published or is in the
    records, ``best_known`` is the least of these, and ``over_best`` is cost / best_known - 1, which is negative if your
    cost is better.
    """
    if options.timeout and not options.method:
        raise InputError("check", "--timeout", "expected only with --method: it limits the method's run")
    if CERTIFICATE.search(options.solution):
        return check_certificate(load_named(options), options)
    given = load_named(options), solution_path(options.solution)
    with watching(quiet=options.quiet) as watch:
        held: RunOptions = limits_of(options, watch) if options.method else {}
        found = api.check(*given, method=options.method, solver_path=options.solver_path, **held)
    if found.run is not None:
        print_failure(found.run)
    print_contradiction(found)
    print_infinity(found)
    if not options.method and not options.quiet:
        suggest_method(found, options)
    return watch.status(int(not found.feasible)), {
        "instance": found.instance,
        **found.options,
        "feasible": found.feasible,
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "bound_from": found.bound_from,
        "grade": found.grade,
        "gap": found.gap,
        "optimal": found.optimal,
        **best_known(found),
        "violations": list(found.violations),
        **found.facts,
        **({} if found.run is None else of_method(found.run)),
    }


def suggest_method(found: CheckResult, options: argparse.Namespace) -> None:
    """Name on standard error the methods that may prove a greater bound, if the gap is above 1 %."""
    if not found.feasible or found.optimal or (found.gap is not None and found.gap <= WEAK_GAP):
        return
    from shardmark.harness.campaign.discover import discover

    methods = [
        x.name
        for x in discover(options.solver_path)
        if (x.kind, x.track) == ("bound", found.track) and x.name != "simple"
    ]
    tell(f"shardmark: --method NAME may prove a greater lower bound: {', '.join(methods)}")


def solution_path(text: str) -> Path:
    """Return the path of a solution file; "-" stands for standard input."""
    return Path("/dev/stdin" if text == "-" else text)


def of_method(run: RunResult) -> dict[str, Any]:
    """Return the keys of `check`'s answer about a method's run."""
    about = {"method": run.method, "method_cost": run.cost, "status": run.status, "reason": run.reason}
    return {**about, **measured(run)}


def bound_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `bound`."""
    method = sub.add_argument_group("the method")
    words = "a bound method, from `shardmark list bounds`, or a solver that proves bounds"
    method.add_argument("-m", "--method", required=True, metavar="NAME", help=words)
    shared.add_solver_path(method)
    _add_run(sub, "JSON file for the bound and all that is needed to repeat its run")


def run_bound(options: argparse.Namespace) -> Answer:
    """Run a method that proves a lower bound.

    If the method also finds a cost, the cost is ``optimal`` if the bound is less than 1 below it (integer costs) or
    within a relative 1e-5 (float costs). ``gap`` is cost / bound - 1, and 0 if the cost is optimal. If a cost was
    published or is in the records, ``best_known`` is the least of these, and ``gap_of_best`` is best_known / bound - 1.
    ``known_bound`` is the greatest bound that was published or is in the records. ``grade`` is "checked", "agreed" or
    "claimed", as of `solve`. The run ends early only if its own
    bound proves its own cost optimal. A bound above the verified cost of a record is refuted.

    The exit status is 1 if there is no bound or it is refuted, and 3 if there is a bound but the method crashed, failed
    or made another claim that was refuted.
    """
    sources = [options.instance, *shared.solver_files(options)]
    shared.require_outputs(options.output, options.certificate, sources=sources)
    instance = load_named(options)
    with watching(quiet=options.quiet) as watch:
        found = api.bound(
            instance,
            options.method,
            solver_path=options.solver_path,
            certificate=options.certificate is not None,
            **limits_of(options, watch),
        )
    print_failure(found)
    answer = {
        "instance": found.instance,
        **found.options,
        "method": found.method,
        "lower_bound": found.lower_bound,
        "grade": found.grade or None,
        "cost": found.cost,
        "gap": found.gap,
        "optimal": found.optimal,
        **({} if found.best_known is None else of_best(found)),
        **of_bound(found),
        "status": found.status,
        "reason": found.reason,
        **measured(found),
    }
    holds = found.lower_bound is not None and found.status != "contradiction"
    if options.output and holds:
        document = {**answer, **repetition(instance, found, options)}
        with kept(answer):
            write_document(options.output, document, "the bound")
    write_certificate(found, options, answer)
    return watch.status(exit_status(holds, has_failed(found))), answer


def of_best(found: RunResult) -> dict[str, Any]:
    """Return the keys of `bound`'s answer about the best known cost."""
    from shardmark.harness.results.claims import gap

    left = gap(found.best_known, found.lower_bound)
    return {"best_known": found.best_known, "best_from": found.best_from, "gap_of_best": left}


def of_bound(found: RunResult) -> dict[str, Any]:
    """Return the keys of `bound`'s answer about the greatest known bound; empty if there is none."""
    if found.known_bound is None:
        return {}
    return {"known_bound": found.known_bound, "known_from": found.known_from}


def repetition(instance: Any, found: RunResult, options: argparse.Namespace) -> dict[str, Any]:
    """Return what is needed to repeat a bound: the instance's checksum, limits, seed, version and all bounds."""
    from shardmark.harness.campaign import host
    from shardmark.problems import problem_of

    with problem_of(instance) as problem:
        content = problem.content_hash
        timeout = options.timeout or problem.timeout_s or DEFAULT_TIMEOUT_S
    return {
        "instance_sha256": content,
        "seed": options.seed,
        "timeout_s": timeout,
        "memory_mib": options.memory_limit,
        "cores": options.cores,
        "version": f"shardmark {host.version()}",
        "bounds": [{"time_s": bound.time_s, "value": bound.value} for bound in found.bounds],
    }


def run_info(options: argparse.Namespace) -> Answer:
    """Show facts about an instance, and its best known cost and lower bound if it is public."""
    from shardmark.problems import Known, problem_of

    instance = load_named(options)
    if not instance.nodes:
        print(printable(f"shardmark: {options.instance} has no nodes: there is nothing to split"), file=sys.stderr)
    with problem_of(instance) as problem:
        known = Known.of(problem)
    (best, best_from), (bound, bound_from) = known.best, known.greatest_bound()
    about = {"best_known": best, "best_from": best_from, "lower_bound": bound, "bound_from": bound_from}
    nothing = best is None and bound_from == "instance"  # the summary has the instance's own bound
    return 0, {**instance.summary(), **({} if nothing else about)}


def load_named(options: argparse.Namespace) -> Any:
    """Read the instance that the command line names, with its options.

    ``--memory`` is the run's limit, as ``--memory-limit``, unless the track has an option of that name.
    """
    given = shared.given_options(options)
    try:
        return api.load(options.instance, track=options.track, **given)
    except UnknownOption as error:
        if error.place != "option memory" or not hasattr(options, "memory_limit"):
            raise
    options.memory_limit = given.pop("memory")
    return api.load(options.instance, track=options.track, **given)


def limits_of(options: argparse.Namespace, watch: Watching) -> RunOptions:
    """Return the limits of a run as the command line sets them, and its progress callback."""
    return {
        "progress": watch,
        "timeout": options.timeout,
        "memory": options.memory_limit,
        "cores": options.cores,
        "cpu": options.cpu,
        "processes": options.processes,
        "output_limit": options.output_limit,
        "seed": options.seed,
        "limits": options.limits,
        "isolation": options.isolation,
    }


def best_known(found: RunResult | CheckResult) -> dict[str, Any]:
    """Return the keys that compare a cost with the best known one; empty if none is known."""
    if found.best_known is None:
        return {}
    return {"best_known": found.best_known, "best_from": found.best_from, "over_best": found.over_best}


def print_contradiction(found: RunResult | CheckResult) -> None:
    """Print on standard error that a known bound is above a verified cost."""
    if found.contradiction:
        tell(f"shardmark: {found.contradiction}")


def print_infinity(found: RunResult | CheckResult) -> None:
    """Print on standard error that a cost includes an infinite entry."""
    from shardmark.instances.intraop import INFINITE

    if found.track == "intraop" and found.cost is not None and found.cost >= INFINITE:
        tell("shardmark: the cost is infinite, which the contest's files write as 10^18")


def print_failure(run: RunResult) -> None:
    """Print a run's log on standard error, followed by the reason if it failed."""
    from shardmark.harness.results.judgement import FAULTS

    if run.log:
        print(printable(run.log, keep="\n\t"), end="" if run.log.endswith("\n") else "\n", file=sys.stderr)
    if run.status in ("contradiction", "misclaim"):
        print(printable(f"shardmark: {run.method} {run.reason}"), file=sys.stderr)
    if run.status in FAULTS:
        words = {"crash": "crashed", "lost": "was lost", "killed": "was ended"}.get(run.status, "failed")
        counts = "; its earlier reports count" if run.cost is not None or run.bounds else ""
        print(printable(f"shardmark: {run.method} {words}: {run.reason}{counts}"), file=sys.stderr)


def exit_status(found: bool, fault: bool) -> int:
    """Return the exit status of a run: 1 if it found nothing, 3 if it found something and then failed, else 0."""
    return (FAULTY if fault else 0) if found else 1


def has_failed(run: RunResult) -> bool:
    """Return True if a run failed or made a claim that was refuted."""
    from shardmark.harness.results.judgement import FAULTS

    return run.status in (*FAULTS, "contradiction", "misclaim")


def measured(run: RunResult) -> dict[str, Any]:
    """Return a run's time and memory, rounded, and how its limits were enforced."""
    used = {"wall_s": round(run.wall_s, 3), "cpu_s": round(run.cpu_s, 3), "peak_mib": round(run.peak_mib, 1)}
    return {**used, "limits": run.limits or None}


COMMANDS = (
    Command("solve", run_solve, solve_arguments, "watts-strogatz-150 --solver brkga-100 --timeout 5"),
    Command("check", run_check, check_arguments, "watts-strogatz-150 solution.json"),
    Command("bound", run_bound, bound_arguments, "erdos-renyi-60 --method exact --timeout 10"),
    Command("info", run_info, shared.add_instance, "transformer-12"),
)
