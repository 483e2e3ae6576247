"""The command line: ``shardmark COMMAND``, also ``python -m harness``.

Exit status 0 for success, 1 for "no" (infeasible, nothing found), 2 for bad input or usage.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import keyword
import os
import platform
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness import host
from harness.backends import ISOLATION, LIMITS, choose, described
from harness.compare import proves
from harness.conformance import submit, verdict
from harness.cpus import Claims, core_sets, usable_cpus
from harness.discover import SolverInfo, discover, from_command
from harness.executors import LocalExecutor
from harness.limits import Limits
from harness.run import Executor, Job, Problem, campaign, perform, utc_now
from harness.show import Progress, pairs, printable, report, table
from harness.store import FILE_NAME, Record, Store, exclusive
from harness.verify import verify
from instances import InputError, catalog, save, tracks
from instances.jsonfile import read_json, write_bytes, write_json

if TYPE_CHECKING:
    from harness.reproduce import Cell

Answer = tuple[int, Any]  # exit status, and what is printed: an object or a list of objects

DEFAULT_TIMEOUT_S = 60.0
DEFAULT_MEMORY_MIB = 4096.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    database = "results"
    try:
        _open_streams()
        with _clean_end():
            try:
                options = parser().parse_args(arguments)
            finally:
                say("")  # help waits to be written
            database = str(getattr(options, "results", Path()) / FILE_NAME)
            status, answer = options.command(options)
            emit(answer, options.json)
    except InputError as error:
        print(f"shardmark: {printable(str(error))}", file=sys.stderr)
        return 2
    except sqlite3.Error as error:
        expected = f"expected a database that can be read and written ({error})"
        print(printable(f"shardmark: {database}: {expected}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("shardmark: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _drop_output()
        return 141
    return int(status)


def _open_streams() -> None:
    """Let output and errors take any text, whatever the terminal can show; InputError without an output."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 as long as the process
    if sys.stdout is None:
        raise InputError("standard output", "", "expected one that is open")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what waits to be written go nowhere, now and when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Write to the standard output at once; InputError if it takes no more, BrokenPipeError if nobody reads it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise InputError("standard output", "", f"expected a place that can be written ({error.strerror})") from None


@contextmanager
def _clean_end() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as on Ctrl-C: runs are killed, what is done is kept."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def emit(answer: Any, as_json: bool) -> None:
    """Print an answer: one JSON value for machines, aligned columns for people."""
    if as_json:
        say(f"{json.dumps(answer, allow_nan=False)}\n")
    elif isinstance(answer, list):
        say(f"{table(answer)}\n")
    elif answer is not None:
        say(f"{pairs(answer)}\n")


# ---------------------------------------------------------------- instances and solvers, by name


def find_problem(options: argparse.Namespace, reference: str | None = None) -> Problem:
    """The instance that an argument names: a file, or a catalog id."""
    path, entry = catalog.resolve(reference or options.instance)
    track, timeout, stages = (getattr(options, name, None) for name in ("track", "timeout", "stages"))
    given = {} if stages is None else {"stages": stages}
    if entry is None:
        return Problem(path.name, path, track, given, {}, timeout or DEFAULT_TIMEOUT_S)
    if track not in (None, entry.track):
        raise InputError(entry.id, "--track", f"expected {entry.track}, found {track}")
    options_of_both = {**entry.options, **given}
    return Problem(entry.id, path, entry.track, options_of_both, entry.published, timeout or entry.time_limit_s)


def find_solver(infos: Sequence[SolverInfo], track: str, name: str, kind: str | None = None) -> SolverInfo:
    """The solver or bound of a track by its name; InputError for an unknown one or one that cannot be imported.

    ``kind`` is what a caller of an unknown name is told of, None for both.
    """
    names = {info.name: info for info in infos if info.track == track}
    if name not in names:
        near = catalog.near_miss(name, names)
        offered = sorted(known for known, info in names.items() if kind in (None, info.kind))
        raise InputError(kind or "solver", repr(name), f"expected one of {', '.join(offered)}{near}")
    info = names[name]
    if info.error:
        raise InputError(info.file, "", f"expected a solver file that can be imported ({info.error})")
    return info


def limits_of(options: argparse.Namespace, problem: Problem) -> Limits:
    """The limits that the options and the instance's catalog entry give."""
    return Limits(
        problem.timeout_s, options.memory, options.cores, options.cpu, options.processes, options.output_limit
    )


# ---------------------------------------------------------------- commands


def run_list(options: argparse.Namespace) -> Answer:
    """What there is."""
    if options.what == "instances":
        return 0, [
            {"id": e.id, "track": e.track, "suites": ",".join(e.suites), "time_limit_s": e.time_limit_s, "note": e.note}
            for e in catalog.entries()
        ]
    if options.what == "suites":
        return 0, [
            {"suite": name, "instances": len(members), "tracks": ",".join(sorted({e.track for e in members}))}
            for name, members in catalog.suites().items()
        ]
    kind = options.what.removesuffix("s")
    return 0, [
        {"name": s.name, "track": s.track, "params": json.dumps(dict(s.params)), "about": s.error or s.description}
        for s in discover(options.solver_path)
        if s.kind == kind
    ]


def run_solve(options: argparse.Namespace) -> Answer:
    """One run under limits."""
    problem = find_problem(options)
    track = problem.instance.track
    if options.command_line is None:
        solver = find_solver(discover(options.solver_path), track, options.solver)
    else:
        solver = from_command(options.command_line, track)
    row = run_one(options, problem, solver)
    if options.output and row.solution is not None:
        write_json(options.output, row.solution)
    if row.log:
        print(printable(row.log, keep="\n\t"), end="", file=sys.stderr)
    bound, whose = known_bound(problem, row)
    return int(row.cost is None), {
        "instance": problem.id,
        "solver": solver.name,
        "status": row.status,
        "reason": row.reason,
        "feasible": row.cost is not None,
        "cost": row.cost,
        "lower_bound": bound,
        "bound_from": whose,
        "gap": gap(row.cost, bound),
        **measured(row),
    }


def run_one(options: argparse.Namespace, problem: Problem, solver: SolverInfo) -> Record:
    """One run outside a campaign."""
    (cpus,) = core_sets(1, options.cores)
    with choose(options.limits, options.isolation).warden() as warden:
        return perform(Job(solver, problem, options.seed, limits_of(options, problem)), warden, cpus)


def known_bound(problem: Problem, row: Record | None = None) -> tuple[int | float, str]:
    """The greatest lower bound at hand, and where it comes from: the instance, the run, or what is published."""
    bounds = [(problem.summary["simple_bound"], "simple")]
    if row is not None and row.lower_bound is not None and row.status != "contradiction":
        bounds.append((row.lower_bound, row.solver))
    if not problem.options and "lower_bound" in problem.published:
        text = problem.published["lower_bound"]
        bounds.append((int(text) if text.isdigit() else float(text), "published"))
    return max(bounds, key=lambda bound: bound[0])


def measured(row: Record) -> dict[str, Any]:
    """What a run used, rounded for reading, and how it was held to its limits."""
    used = {"wall_s": round(row.wall_s, 3), "cpu_s": round(row.cpu_s, 3), "peak_mib": round(row.peak_mib, 1)}
    return {**used, "limits": described(row.backend, row.enforced) if row.backend and row.enforced else None}


def gap(cost: int | float | None, bound: int | float | None) -> float | None:
    """cost / bound - 1: how far from the optimum the cost can be at most; None where that says nothing."""
    if cost is None or bound is None:
        return None
    if cost <= bound:
        return 0.0
    return cost / bound - 1 if bound > 0 else None


def run_check(options: argparse.Namespace) -> Answer:
    """The verdict on a solution."""
    problem = find_problem(options)
    verdict = verify(problem.instance, read_json(options.solution))
    bound, whose = known_bound(problem)
    return int(not verdict.feasible), {
        "instance": problem.id,
        "feasible": verdict.feasible,
        "cost": verdict.cost,
        "lower_bound": bound,
        "bound_from": whose,
        "gap": gap(verdict.cost, bound) if verdict.feasible else None,
        "violations": list(verdict.violations),
    }


def run_bound(options: argparse.Namespace) -> Answer:
    """A lower bound, and whether it is proven to be the optimum."""
    problem = find_problem(options)
    method = find_solver(discover(options.solver_path), problem.instance.track, options.method, "bound")
    row = run_one(options, problem, method)
    return int(row.lower_bound is None or row.status == "contradiction"), {
        "instance": problem.id,
        "method": method.name,
        "lower_bound": row.lower_bound,
        "cost": row.cost,
        "gap": gap(row.cost, row.lower_bound),
        "optimal": optimal(row),
        "status": row.status,
        "reason": row.reason,
        **measured(row),
    }


def optimal(row: Record) -> bool:
    """Whether the run's own bound proves its own verified cost optimal."""
    if row.cost is None or row.lower_bound is None or row.status == "contradiction":
        return False
    return proves(row.lower_bound, row.cost, isinstance(row.cost, int))


def run_info(options: argparse.Namespace) -> Answer:
    """Facts about an instance."""
    return 0, find_problem(options).summary


def run_run(options: argparse.Namespace) -> Answer:
    """The matrix of solvers, instances and seeds; resumes where it stopped."""
    check_executor(options)
    jobs = matrix(options)
    with exclusive(options.results):
        store = Store.open(options.results, create=True, tell=Progress(0, 0).line)
        try:
            return run_jobs(options, jobs, store)
        finally:
            store.close()


def run_jobs(options: argparse.Namespace, jobs: list[Job], store: Store) -> Answer:
    """Do what is missing, and count how all of it ended."""
    finished = store.finished()
    todo = [
        job for job in jobs if (status := finished.get(job.id)) is None or (options.retry_failed and status != "ok")
    ]
    progress = Progress(len(jobs), len(jobs) - len(todo), options.quiet)
    about = utc_now(), sys.argv, host.version(), host.facts(), [job.id for job in jobs]
    with closing(executor_of(options, todo, progress.line)) as executor:
        number = store.add_campaign(*about, executor=executor.name, jobs=executor.capacity)
        complete = campaign(store, number, todo, executor, progress)
    done = store.finished()
    statuses = [done[job.id] for job in jobs if job.id in done]
    if not complete:
        progress.line(f"interrupted with {len(statuses)} of {len(jobs)} runs done, the same command goes on from here")
    for name, disturbance in store.disturbances(number):
        print(printable(f"warning: {name or 'this machine'}: {disturbance}"), file=sys.stderr)
    return (0 if complete else 130), {
        "results": str(options.results),
        "runs": len(jobs),
        "started": len(todo),
        "ok": statuses.count("ok"),
        "not_ok": len(statuses) - statuses.count("ok"),
    }


def check_executor(options: argparse.Namespace) -> None:
    """InputError for options of an executor that do not go together, and an address that is none."""
    if (options.executor == "dask") != (options.scheduler is not None):
        raise InputError("run", "", "expected --executor dask and --scheduler ADDRESS together")
    if options.executor == "local":
        return
    if (options.limits, options.isolation) != ("auto", "auto"):
        raise InputError(
            "run", "--limits and --isolation", "expected them with `shardmark worker`, which holds the runs"
        )
    with _with_dask():
        from harness.dask_worker import check_address

    check_address(options.scheduler)


def executor_of(options: argparse.Namespace, jobs: Sequence[Job], tell: Callable[[str], None]) -> Executor:
    """What carries out the jobs of a campaign."""
    cores = max((job.limits.cores for job in jobs), default=1)
    if options.executor == "local":
        backend = choose(options.limits, options.isolation)
        tell(f"limits: {backend}")
        return LocalExecutor(options.jobs or 1, cores, backend.warden)
    from harness.dask_executor import DaskExecutor

    return DaskExecutor(options.scheduler, cores, options.jobs, tell)


@contextmanager
def _with_dask() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        expected = f"expected the packages of the extra `dask`, there is no {error.name}"
        raise InputError("dask", "", expected) from None


def run_worker(options: argparse.Namespace) -> Answer:
    """Carry out runs of campaigns elsewhere, one at a time, until Ctrl-C."""
    with _with_dask():
        from harness.dask_worker import Station, serve
    usable = usable_cpus()
    asked = [cpu for cpu in usable if options.cpus is None or cpu in options.cpus]
    wanted = options.cores if options.cpus is None else len(options.cpus)
    with Claims(options.scheduler) as claims:
        cpus = claims.take(asked, wanted)
        if len(cpus) < wanted:
            free = f"{wanted} usable CPUs that no other worker of this scheduler has"
            raise InputError("worker", "--cpus or --cores", f"expected {free}, found {len(cpus)}")
        backend = choose(options.limits, options.isolation)
        with backend.warden() as warden:
            station = Station(options.name or platform.node(), cpus, warden, str(backend))
            serve(options.scheduler, station, Progress(0, 0).line)
    return 0, None


def matrix(options: argparse.Namespace) -> list[Job]:
    """All jobs of a campaign, those of one instance together; bounds need one seed only."""
    if options.instance:
        problems = [find_problem(options, reference) for reference in options.instance]
    else:
        problems = [find_problem(options, entry.id) for entry in catalog.suite(options.suite)]
    infos = contenders(options, dict.fromkeys(problem.track or problem.instance.track for problem in problems))
    jobs: dict[str, Job] = {}
    for problem in problems:
        track = problem.track or problem.instance.track
        for info in infos:
            if info.track != track:
                continue
            seeds = range(options.seeds if info.kind == "solver" else 1)
            for job in (Job(info, problem, seed, limits_of(options, problem), options.results) for seed in seeds):
                jobs.setdefault(job.id, job)  # an instance named twice is run once
    if not jobs:
        raise InputError("run", "", "expected at least one solver for the instances named")
    keep_apart(options.results, jobs.values())
    return list(jobs.values())


def keep_apart(results: Path, jobs: Collection[Job]) -> None:
    """InputError if what runs need lies in the folder of results, which they do not see."""
    needed = [Path(sys.prefix), Path(host.__file__), Path(tempfile.gettempdir())]
    needed += [job.problem.path.absolute() for job in jobs]
    needed += [Path(word) for job in jobs for word in (job.solver.file, *job.solver.command)]
    for path in filter(Path.is_absolute, dict.fromkeys(needed)):
        if path.resolve().is_relative_to(results.resolve()):
            raise InputError(results, "--results", f"expected a folder that hides nothing from runs, {path} lies in it")


def contenders(options: argparse.Namespace, tracks: Iterable[str]) -> list[SolverInfo]:
    """The solvers of a campaign: those that --solver and --command name, or all that there are."""
    infos = discover(options.solver_path)
    known = {info.name for info in infos}
    for name in options.solver or ():
        if name not in known:
            near = catalog.near_miss(name, known)
            raise InputError("solver", repr(name), f"expected one of {', '.join(sorted(known))}{near}")
    taken = {(info.track, info.name) for info in infos}
    programs = [from_command(command, track) for command in options.command_line for track in tracks]
    for program in programs:
        if (program.track, program.name) in taken:
            expected = f"expected a program whose name {program.track} does not have yet, a TOML file can name it anew"
            raise InputError("command", program.name, expected)
        taken.add((program.track, program.name))
    if options.solver or programs:
        infos = [info for info in infos if info.name in (options.solver or ())]
    return infos + programs


def run_results(options: argparse.Namespace) -> Answer:
    """The table of runs with their scores, or another; also as Parquet and CSV."""
    from harness import score

    store = Store.open(options.results)
    frame = score.export_table(score.tables(store), options.table)
    store.close()
    if options.parquet:
        score.write_parquet(frame, options.parquet)
    if options.csv:
        score.write_csv(frame, options.csv)
    shown = frame.select(score.SHORT) if options.table == "runs" and not options.json else frame
    return 0, shown.to_dicts()


def run_leaderboard(options: argparse.Namespace) -> Answer:
    """The static site."""
    from harness import score
    from leaderboard.build import build

    store = Store.open(options.results)
    only = None if options.suite is None else {entry.id for entry in catalog.suite(options.suite)}
    index = build(score.tables(store, only), options.output)
    store.close()
    return 0, {"index": str(index)}


def run_reproduce(options: argparse.Namespace) -> Answer:
    """A paper's tables or figures, ours beside the published ones."""
    from harness import reproduce
    from leaderboard.build import check
    from leaderboard.reproduction import write

    check(options.output)
    chosen = reproduce.reproductions()[options.name]
    settings = replace(chosen.DEFAULTS, **{key: getattr(options, key) for key in reproduce.options(chosen.DEFAULTS)})
    options.jobs = options.jobs or max(1, len(usable_cpus()) // options.cores)
    graphs = Path(f"{options.results.resolve()}-graphs")  # runs do not see the folder of results
    status, answer = run_cells(options, chosen.plan(settings, graphs), settings.seed)
    if status:
        return status, answer
    found = chosen.report(settings, answer)
    held = f"{host.facts()['cpu']}; {options.cores} of its cores and {options.memory:g} MiB a run"
    made = {"Machine": f"{held}, {options.jobs} at once", "Made with": f"shardmark {host.version()}"}
    found = replace(found, facts={**found.facts, **made})
    page = write(found, options.output)
    if options.json:
        return 0, {**asdict(found), "page": str(page)}
    say(f"{report(found)}\n\npage: {page}\n")
    return 0, None


def run_cells(options: argparse.Namespace, cells: Sequence[Cell], seed: int) -> Answer:
    """Do what is missing of the runs that a reproduction needs; their outcomes, unless it was interrupted."""
    from harness import score
    from harness.reproduce import finished

    infos = discover()
    asked: dict[str, Cell] = {}
    jobs = []
    for cell in cells:
        track = cell.problem.track or cell.problem.instance.track
        solver = find_solver([x for x in infos if x.kind == cell.kind], track, cell.method, cell.kind)
        limits = Limits(cell.timeout_s, options.memory, options.cores)
        jobs.append(Job(solver, cell.problem, seed, limits, options.results))
        asked[jobs[-1].id] = cell
    keep_apart(options.results, jobs)
    with exclusive(options.results):
        store = Store.open(options.results, create=True, tell=Progress(0, 0).line)
        try:
            status, counts = run_jobs(options, jobs, store)
            if status:
                return status, counts
            return 0, finished(asked, score.tables(store, {cell.problem.id for cell in cells}))
        finally:
            store.close()


def run_fetch(options: argparse.Namespace) -> Answer:
    """Public instances into the cache, checksums verified."""
    from instances.fetch import fetch

    suites = catalog.suites()
    entries = [e for name in options.suite or ["contest"] for e in suites.get(name) or [catalog.find(name)]]
    outcomes = fetch(entries, options.mirror, lambda text: print(text, file=sys.stderr))
    failed = sum(outcome.error != "" for outcome in outcomes)
    return int(failed > 0), [{"id": o.id, "path": str(o.path or ""), "error": o.error} for o in outcomes]


def run_generate(options: argparse.Namespace) -> Answer:
    """A new instance from a seed."""
    from instances.generate import families

    family = families()[options.family]
    given = {key: getattr(options, key) for key in family.parameters if getattr(options, key) is not None}
    instance = family.build(options.seed, **given)
    save(instance, options.output)
    return 0, {"output": str(options.output), **instance.summary()}


def run_import(options: argparse.Namespace) -> Answer:
    """A new instance from a file of another program."""
    from instances.importers import importers

    importer = importers()[options.importer]
    instance = importer.read(options.file, **{name: getattr(options, name) for name in importer.OPTIONS})
    save(instance, options.output)
    return 0, {"output": str(options.output), **instance.summary()}


def run_new_solver(options: argparse.Namespace) -> Answer:
    """A solver file to start from."""
    from harness.new_solver import template

    folder = options.directory or (Path("solvers") / options.track if Path("solvers/registry.py").is_file() else Path())
    path = Path(folder) / f"{options.name.replace('-', '_')}.py"
    if os.path.exists(path):
        raise InputError(path, "", "expected a name that is still free")
    write_bytes(path, template(options.name, options.track).encode())
    return 0, {
        "file": str(path),
        "try": f"shardmark solve INSTANCE --solver {options.name} --solver-path {path}",
        "check": f"shardmark submit {path}",
    }


def run_submit(options: argparse.Namespace) -> Answer:
    """The conformance check of a solver, before it is proposed."""
    findings = submit(options.file, options.track, lambda text: print(text, file=sys.stderr))
    rows = [asdict(finding) for finding in findings]
    status = int(any(finding.passed == "no" for finding in findings))
    if options.json:
        return status, rows
    say(f"{table(rows)}\n\n{verdict(findings, options.file)}\n")
    return status, None


# ---------------------------------------------------------------- arguments


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="shardmark", description="Split deep-learning graphs over devices, and know how well."
    )
    top.add_argument("--version", action="version", version=f"shardmark {host.version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], Answer], example: str) -> argparse.ArgumentParser:
        about = (command.__doc__ or "").strip()
        sub = commands.add_parser(
            name,
            help=about,
            description=about,
            epilog=f"example: shardmark {name} {example}",
        )
        sub.add_argument("--json", action="store_true", help="print JSON for machines")
        sub.set_defaults(command=command)
        return sub

    sub = add("list", run_list, "solvers")
    sub.add_argument("what", choices=("instances", "solvers", "bounds", "suites"))
    _solver_path(sub)

    sub = add("solve", run_solve, "watts-strogatz-150 --solver brkga-100 --timeout 5")
    _instance(sub)
    who = sub.add_mutually_exclusive_group(required=True)
    who.add_argument("--solver", metavar="NAME")
    who.add_argument("--command", dest="command_line", metavar="CMD", help="a program, started as `CMD FILE SECONDS`")
    sub.add_argument("--output", type=Path, metavar="FILE", help="write the best solution there")
    _limits(sub)
    _solver_path(sub)

    sub = add("check", run_check, "watts-strogatz-150 solution.json")
    _instance(sub)
    sub.add_argument("solution", metavar="SOLUTION", help="a JSON file")

    sub = add("bound", run_bound, "erdos-renyi-60 --method exact --timeout 10")
    _instance(sub)
    sub.add_argument("--method", required=True, metavar="NAME")
    _limits(sub)
    _solver_path(sub)

    sub = add("info", run_info, "transformer-12")
    _instance(sub)

    sub = add("run", run_run, "--suite quick --jobs 2")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--suite", default="quick", metavar="NAME", help="instances of a suite (default: quick)")
    which.add_argument("--instance", action="append", metavar="INSTANCE", help="a file or an id; may be repeated")
    sub.add_argument("--stages", type=_positive_int, metavar="K", help="number of stages (pipeline)")
    sub.add_argument("--solver", action="append", metavar="NAME", help="only these; may be repeated")
    sub.add_argument(
        "--command",
        action="append",
        default=[],
        dest="command_line",
        metavar="CMD",
        help="a program, started as `CMD FILE SECONDS`, and of the others only those of --solver; may be repeated",
    )
    sub.add_argument("--seeds", type=_positive_int, default=1, metavar="N", help="seeds 0 to N-1 (default: 1)")
    sub.add_argument("--jobs", type=_positive_int, metavar="N", help="runs at once (default: 1; dask: one a worker)")
    sub.add_argument("--executor", choices=("local", "dask"), default="local", help="this machine, or workers of Dask")
    sub.add_argument("--scheduler", metavar="ADDRESS", help="of Dask, as tcp://HOST:8786")
    sub.add_argument("--retry-failed", action="store_true", help="do again what did not end well")
    sub.add_argument("--quiet", action="store_true", help="no progress")
    _results(sub)
    _limits(sub, seed=False)
    _solver_path(sub)

    sub = add("results", run_results, "--csv runs.csv")
    _results(sub)
    sub.add_argument("--parquet", type=Path, metavar="FILE")
    sub.add_argument("--csv", type=Path, metavar="FILE")
    tables = ("runs", "incumbents", "bounds", "campaigns", "hosts")
    sub.add_argument("--table", choices=tables, default="runs", help="default: runs, with their scores")

    sub = add("leaderboard", run_leaderboard, "--output site")
    _results(sub)
    sub.add_argument("--output", type=Path, default=Path("site"), metavar="DIR", help="default: site")
    sub.add_argument("--suite", metavar="NAME", help="only the instances of a suite (default: all that were run)")

    _reproduce(add("reproduce", run_reproduce, "pipeline-bounds --graphs 8 --timeout 10 --bound-timeout 60"))

    sub = add("fetch", run_fetch, "contest --mirror DIR")
    sub.add_argument("suite", nargs="*", metavar="SUITE", help="a suite or an id (default: contest)")
    sub.add_argument("--mirror", metavar="DIR", help="a local copy, OWNER/REPOSITORY/PATH (or SHARDMARK_MIRROR)")

    _generate(add("generate", run_generate, "watts-strogatz --seed 1 --nodes 150 --output graph.json"))

    _import(add("import", run_import, "cost-graph graph.pbtxt --stages 8 --output graph.json"))

    sub = add("new-solver", run_new_solver, "my-idea --track pipeline")
    sub.add_argument("name", type=_solver_name, metavar="NAME")
    sub.add_argument("--track", required=True, choices=tracks())
    sub.add_argument("--directory", type=_path, metavar="DIR", help="default: solvers/TRACK, or here")

    sub = add("submit", run_submit, "solvers/pipeline/my_idea.py")
    sub.add_argument("file", type=_path, metavar="FILE", help="a Python file, a TOML file of programs, or a program")
    sub.add_argument("--track", choices=tracks(), help="of a program; of a file, only its solvers of this track")

    sub = add("worker", run_worker, "--scheduler tcp://HOST:8786 --cores 4")
    sub.add_argument("--scheduler", required=True, metavar="ADDRESS", help="of Dask; start one with `dask scheduler`")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="CPUs of a run (default: 1)")
    which.add_argument("--cpus", type=_numbers, metavar="LIST", help="which they are, as 0,2,4-7 (default: the first)")
    sub.add_argument("--name", metavar="NAME", help="of this machine in results (default: its host name)")
    _backend(sub)
    return top


def _instance(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("instance", metavar="INSTANCE", help="a file, or an id from `shardmark list instances`")
    sub.add_argument("--track", choices=tracks(), help="default: recognised from the content")
    sub.add_argument("--stages", type=_positive_int, metavar="K", help="number of stages (pipeline)")


def _limits(sub: argparse.ArgumentParser, *, seed: bool = True) -> None:
    sub.add_argument("--timeout", type=_seconds, metavar="S", help="seconds of wall time (default: the instance's)")
    sub.add_argument(
        "--memory", type=_seconds, default=DEFAULT_MEMORY_MIB, metavar="MIB", help="MiB for all processes of the run"
    )
    sub.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="default: 1")
    sub.add_argument("--cpu", type=_seconds, metavar="S", help="seconds of CPU time (default: what the cores can give)")
    sub.add_argument(
        "--processes",
        type=_positive_int,
        default=Limits.processes,
        metavar="N",
        help="alive at once (default: %(default)s)",
    )
    sub.add_argument(
        "--output-limit",
        type=_seconds,
        default=Limits.output_mib,
        metavar="MIB",
        help="MiB that a run may print, report and write (default: %(default)g)",
    )
    _backend(sub)
    if seed:
        sub.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")


def _backend(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--limits", choices=LIMITS, default="auto", help="what holds runs to their limits (default: auto)")
    sub.add_argument("--isolation", choices=ISOLATION, default="auto", help="none: runs see and reach all that you can")


def _results(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--results", type=_path, default=Path("results"), metavar="DIR", help="default: results")


def _solver_path(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--solver-path",
        action="append",
        type=_path,
        default=[],
        metavar="PATH",
        help="more solvers: a file or a folder",
    )


def _reproduce(sub: argparse.ArgumentParser) -> None:
    from harness.reproduce import options, reproductions

    members = sub.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in reproductions().items():
        about = " ".join((module.__doc__ or "").split("\n\n")[0].split())
        example = f"example: shardmark reproduce {name}"
        member = members.add_parser(name, help=about, description=about, epilog=example)
        for key, option in options(module.DEFAULTS).items():
            read, placeholder = READERS[option.kind]
            shown = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else str(option.default)
            member.add_argument(
                f"--{key.replace('_', '-')}",
                type=read,
                default=option.default,
                choices=option.choices or None,
                metavar=None if option.choices else placeholder,
                help=f"{option.meaning} (default: {shown})",
            )
        member.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="of a run (default: 1)")
        member.add_argument("--jobs", type=_positive_int, metavar="N", help="runs at once (default: as many as fit)")
        member.add_argument("--memory", type=_seconds, default=DEFAULT_MEMORY_MIB, metavar="MIB", help="of a run")
        member.add_argument(
            "--results",
            type=_path,
            default=Path("results/reproduce"),
            metavar="DIR",
            help="its runs; graphs go to DIR-graphs",
        )
        member.add_argument("--output", type=Path, default=Path("site"), metavar="DIR", help="site (default: site)")
        member.add_argument("--quiet", action="store_true", help="no progress")
        member.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
        member.set_defaults(executor="local", retry_failed=False)
        _backend(member)


def _generate(sub: argparse.ArgumentParser) -> None:
    from instances.generate import MEANING, families

    members = sub.add_subparsers(dest="family", metavar="FAMILY", required=True)
    for name, family in families().items():
        member = members.add_parser(
            name,
            help=f"{family.track}: {family.description}",
            description=f"{family.description} Source: {family.source}" if family.source else family.description,
            epilog=f"example: shardmark generate {name} --seed 1 --output {name}.json",
        )
        member.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")
        member.add_argument("--output", type=Path, required=True, metavar="FILE", help="gzip if it ends in .gz")
        member.add_argument("--json", action="store_true", help="print JSON for machines")
        for key, default in family.parameters.items():
            kind = type(default) if default is not None else float
            meaning = f"{MEANING[key].replace('%', '%%')} (default: {default})"
            member.add_argument(f"--{key.replace('_', '-')}", dest=key, type=kind, metavar="X", help=meaning)


def _import(sub: argparse.ArgumentParser) -> None:
    from instances.importers import importers

    members = sub.add_subparsers(dest="importer", metavar="FORMAT", required=True)
    for name, importer in importers().items():
        about = " ".join((importer.__doc__ or "").split("\n\n")[0].split())
        member = members.add_parser(
            name,
            help=f"{importer.TRACK}: {about}",
            description=importer.__doc__,
            epilog=f"example: shardmark import {name} FILE --stages 8 --output graph.json",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        member.add_argument("file", type=_path, metavar="FILE", help="plain or gzip")
        member.add_argument("--output", type=Path, required=True, metavar="FILE", help="gzip if it ends in .gz")
        member.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
        for key, option in importer.OPTIONS.items():
            member.add_argument(
                f"--{key.replace('_', '-')}",
                type=option.kind,
                metavar=None if option.choices else "X",
                choices=option.choices or None,
                default=option.default,
                help=option.meaning,
            )


def _path(text: str) -> Path:
    """A path that there may or may not be; one that the system cannot even look for is refused."""
    try:
        os.lstat(text)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            found = text if len(text) < 100 else f"{text[:50]}... of {len(text)} characters"
            raise argparse.ArgumentTypeError(f"expected a path ({error.strerror}), found {found!r}") from None
    return Path(text)


def _positive_int(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, found {text!r}")
    return int(text)


def _numbers(text: str) -> list[int]:
    """Numbers in increasing order, from a list of numbers and ranges."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found |= set(range(_cpu(first), _cpu(last if dash else first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"expected numbers and ranges as 0,2,4-7, found {text!r}")
    return sorted(found)


#: Greatest number that an option of a reproduction takes, and greatest number of a CPU.
MOST, MOST_CPU = 10**9, 2**16


def _from_one(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(word, least=1) for word in text.split(",")}))


def _count(text: str, least: int = 0, most: int = MOST) -> int:
    number = _natural(text)
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}, found {text!r}")
    return number


def _cpu(text: str) -> int:
    return _count(text, most=MOST_CPU)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.split(",") if name))


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 0, found {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a positive number below 1e9, found {text!r}")
    return value


def _solver_name(text: str) -> str:
    from solvers.registry import NAME

    name = text.replace("-", "_")
    if not NAME.fullmatch(text) or not name.isidentifier() or keyword.iskeyword(name):
        expected = "expected lower-case letters, digits and dashes that make a name for a Python function"
        raise argparse.ArgumentTypeError(f"{expected}, found {text!r}")
    return text


#: How options of reproductions are read, by their kind, and what stands for their value in help.
READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "count": (_count, "N"),
    "numbers": (_from_one, "LIST"),
    "names": (_names, "LIST"),
    "seconds": (_seconds, "S"),
    "text": (str, "X"),
}


if __name__ == "__main__":
    sys.exit(main())
