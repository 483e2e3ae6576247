"""Fixtures and settings that all tests share: runs under the referee, the mirror of public files, hypothesis."""

from __future__ import annotations

import compileall
import fcntl
import gc
import json
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import pytest
import read_models
from effort import GATE, THOROUGH, draws
from referee import CHAIN, ZOO, Lending, Lent, Pool, backend_here

from shardmark import runs
from shardmark.cli import matrix
from shardmark.cli.arguments import main
from shardmark.cli.submission import conformance, standing
from shardmark.harness.campaign import yardstick
from shardmark.harness.campaign.discover import SolverInfo, discover
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.database import Store
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.backends.choice import Backend, choose
from shardmark.harness.sandbox.contract import Limits, Order
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances.files.jsonfile import write_json

pytest_plugins = ("tests.side_by_side",)

# A noisy machine must not fail a test, and a failure must come back: no deadline, the same examples every time.
hypothesis.settings.register_profile(
    "shardmark", deadline=None, derandomize=True, print_blob=True, max_examples=draws(10, 10, 50)
)
hypothesis.settings.load_profile("shardmark")

# They must reach the programs under test: a shell ignores Ctrl-C for what it puts into the background, nohup SIGHUP.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


# Tests keep no arrays of large instances in the user's cache; those that are about arrays have a cache of their own.
os.environ["SHARDMARK_ARRAYS"] = "off"

# Each thread of NumPy's library spins for 70 ms of CPU time once a program has loaded it.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# A process that begins a long campaign measures its machine first, for 2 s of CPU time. Here a hundredth is enough.
yardstick.INTEGERS, yardstick.FLOATS, yardstick.MEMORY, yardstick.CYCLE = 130_000, 27, 10_000, 1 << 16

ROOT, TESTS = Path(__file__).parents[1], Path(__file__).parent
#: Folders of tests that compute all the time, in the order in which they run.
COMPUTING = ("solvers", "c_src", "fuzz", "mutants", "instances")
#: Folders whose files run first: those of methods that fork, and that of tests of the whole project.
FIRST = (TESTS / "solvers" / "intraop", TESTS)


def pytest_configure(config: pytest.Config) -> None:
    """Compile what programs under test import: where Python keeps no bytecode, each of hundreds would compile it."""
    if not hasattr(config, "workerinput"):  # once, before there are workers
        for package in ("harness", "instances", "leaderboard", "shardmark", "solvers"):
            compileall.compile_dir(ROOT / package, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and never look at what is made then: nearly all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests by their marks, but for the cases that a mark keeps or that are asked for by name.

    Those marked ``gate`` run in the gate, and those marked ``thorough`` under ``make thorough``. ``gate(cases=4)``
    keeps four cases of each parametrised test, evenly spaced; ``gate`` keeps none.
    """
    places = places_in_run(list(dict.fromkeys(item.path for item in items)))
    items.sort(key=lambda item: places[item.path])
    if any("[" in name for name in config.args):
        return
    left = set().union(*(left_out(name, items) for name, runs in (("gate", GATE), ("thorough", THOROUGH)) if not runs))
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def left_out(name: str, items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests with a mark, without the cases that it keeps."""
    marked: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if mark := item.get_closest_marker(name):
            marked.setdefault((item.nodeid.partition("[")[0], mark.kwargs.get("cases", 0)), []).append(item)
    return {
        item
        for (_, most), cases in marked.items()
        for item in set(cases) - {cases[i * len(cases) // most] for i in range(min(most, len(cases)))}
    }


def places_in_run(files: list[Path]) -> dict[Path, float]:
    """Return where each test file comes in a run, from 0 to 1.

    Tests that fork come first: each fork copies the page tables of a process that has grown several times over once it
    has read models with JAX and instances of a million nodes. So do tests of the whole project: their files take
    longest, and at the end one would run alone. Then files that compute take turns with files that wait for processes
    and time limits, as all processes run files side by side.
    """
    rooms: dict[bool, list[Path]] = {True: [], False: []}
    for file in sorted(files, key=room):
        rooms[room(file) < len(COMPUTING)].append(file)
    places = {file: (at + 1) / len(files) for files in rooms.values() for at, file in enumerate(files)}
    return {file: 0.0 if file.parent in FIRST or file.stem == "test_kill" else place for file, place in places.items()}


def room(file: Path) -> int:
    """Return the number of a file's folder in ``COMPUTING``, or their number if it is in none of them."""
    folder = file.relative_to(TESTS).parts[0] if file.is_relative_to(TESTS) else ""
    return COMPUTING.index(folder) if folder in COMPUTING else len(COMPUTING)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A folder laid out OWNER/REPOSITORY/PATH with files of the contest, from SHARDMARK_MIRROR."""
    if "SHARDMARK_MIRROR" not in os.environ:
        pytest.skip("SHARDMARK_MIRROR names no mirror of the contest's files")
    return Path(os.environ["SHARDMARK_MIRROR"])


@pytest.fixture(scope="session")
def zoo() -> dict[str, SolverInfo]:
    """Every solver of the zoo by its name."""
    return {info.name: info for info in discover([ZOO]) if Path(info.file).parent == ZOO}


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Four nodes in a row: one block costs 10, the best cut into two costs 6."""
    path = tmp_path_factory.mktemp("instances") / "chain.json"
    write_json(path, CHAIN)
    return Problem("chain", path, "pipeline", {}, {}, 10.0)


@pytest.fixture
def run_zoo(zoo: dict[str, SolverInfo], chain: Problem, pool: Pool):
    """Run a solver of the zoo on the chain."""

    def run(name: str, timeout: float = 60.0, memory: float = 1024.0) -> Record:
        return perform(Job(zoo[name], chain, 0, Limits(timeout, memory)), Lent("posix", "auto", pool))

    return run


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Supervisors that the tests of a process share."""
    pool = Pool()
    yield pool
    pool.close()


#: Methods of the small campaign, by track.
SMALL = {"pipeline": ("random-1", "mla", "simple"), "scheduling": ("heft-fifo", "hash-fifo", "load")}


@pytest.fixture(scope="session")
def small_campaign(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> dict[str, Path]:
    """Results folders of a real campaign, by track: a few methods on the suite ``tiny``, on an undisturbed machine.

    Of processes that run tests side by side, the first carries it out, and each has a copy.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if base.name.startswith("fork-") else base) / "small-campaign"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            made = tmp_path_factory.mktemp("made")
            run_small_campaign(made, pool)
            made.rename(shared)
    copy = shutil.copytree(shared, tmp_path_factory.mktemp("small") / "campaign")
    return {track: copy / track for track in SMALL}


def run_small_campaign(folder: Path, pool: Pool) -> None:
    """Carry out the small campaign in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "choose", lambda *_: Lending(**vars(backend_here("posix")), pool=pool))
        for track, methods in SMALL.items():
            named = [word for method in methods for word in ("--solver", method)]
            results = ["--results", str(folder / track)]
            command = ["run", "--suite", "tiny", "--track", track, "-t", "10", "--seeds", "2", "-q", *named, *results]
            patch.setattr("sys.argv", [str(ROOT / "shardmark"), *command])
            assert main(command) == 0
            with closing(Store.open(folder / track, create=True)) as store, store.transaction() as db:
                db.execute("UPDATE hosts SET disturbances = '[]'")


@pytest.fixture(scope="module")
def posix_for_auto(pool: Pool) -> Iterator[None]:
    """The command line and the API take ``posix`` for ``auto``: it starts runs ten times as fast as ``benchexec``."""

    def chosen(limits: str = "auto", isolation: str = "auto") -> Backend:
        if limits not in ("auto", "posix"):
            return choose(limits, isolation)
        return Lending(**vars(backend_here("posix", isolation)), pool=pool)

    with pytest.MonkeyPatch.context() as patch:
        for user in (matrix, conformance, standing):
            patch.setattr(user, "choose", chosen)
        patch.setattr(runs, "backend", chosen)
        yield


@pytest.fixture(scope="module")
def stablehlo_in_process() -> Iterator[None]:
    """StableHLO is read without a process of its own, which would import JAX anew."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("stablehlo.apart", "reader"):
            patch.setattr(f"shardmark.instances.models.{module}.read_stablehlo", read_models.read_stablehlo)
        yield


@pytest.fixture(scope="module", params=["posix", "benchexec"])
def supervisor(request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    """A supervisor of each backend; skips where the machine does not permit it."""
    with backend_here(request.param).supervisor() as supervisor:
        yield supervisor


@pytest.fixture
def order(chain: Problem) -> Callable[..., Order]:
    """The run of a program, or of a solver in a file, on the chain, pinned to one core; limits by name."""

    def make(*command: str, solver: str = "", file: Path | None = None, **limits: float) -> Order:
        return Order(
            track="pipeline",
            instance=str(chain.path),
            checksum=chain.content_hash,
            options={},
            solver=solver,
            file=str(file or ""),
            seed=0,
            limits=Limits(**{"timeout_s": 20.0, "memory_mib": 256.0, **limits}),
            cpus=(min(os.sched_getaffinity(0)),),
            command=command,
        )

    return make


@pytest.fixture
def answer(capsys):
    """Return the JSON that a command prints; the command must end with the given status."""

    def run(*arguments, status=0):
        assert main([*map(str, arguments), "--json"]) == status
        return json.loads(capsys.readouterr().out)

    return run
