"""The zoo: whatever a solver does, its run gets the right row, and the next one in the supervisor is unaffected.

Each solver is a few lines in ``zoo/``; a `Case` has its expected row. Four referees run them: backends ``posix``
and ``benchexec``, each with isolation and without.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from effort import THOROUGH
from patience import given_time
from referee import CHAIN, OBSTACLE, SIGKILLED

from shardmark.harness.campaign.cpus import usable_cpus
from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.campaign.queue import store_record
from shardmark.harness.results.database import FILE_NAME, Store
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox import supervisor as module
from shardmark.harness.sandbox.backends import control_groups
from shardmark.harness.sandbox.backends.choice import choose
from shardmark.harness.sandbox.contract import Limits
from shardmark.harness.sandbox.meters.cpu_clock import TreeClock
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import write_json

pytestmark = pytest.mark.gate(cases=10)

AMPLE = Limits(timeout_s=20.0, memory_mib=512.0, processes=100, output_mib=64.0)
TIGHT = replace(AMPLE, memory_mib=300.0)
POSIX, BARE = ("posix", "auto"), ("posix", "none")
BENCHEXEC, BARE_GROUPS = ("benchexec", "auto"), ("benchexec", "none")


def briefly(seconds: float = 1.0, **limits: float) -> Limits:
    """Return limits for a solver that would never end."""
    return replace(AMPLE, timeout_s=seconds, **limits)


BRIEF = briefly()


# ---------------------------------------------------------------- things a run can harm, and referees


class Place:
    """Everything that a run could harm: the instance, a results database, a server, folders, other processes."""

    def __init__(self, folder: Path) -> None:
        self.token = f"shardmark-zoo-{os.getpid()}-{folder.name}"
        self.folder = folder / "kept"
        self.scratch = folder / "scratch"
        self.results, self.old, self.site = (self.folder / name for name in ("results", "old", "site"))
        self.problem = Problem("chain", self.folder / "instances" / "chain.json", "pipeline")
        for made in (self.scratch, self.results, self.old, self.site, self.problem.path.parent):
            made.mkdir(parents=True)
        for results in (self.results, self.old):
            Store.open(results, create=True).close()
        (self.site / "index.html").write_text("6")
        (self.folder / "runs.csv").write_text("6")
        write_json(self.problem.path, CHAIN)
        assert self.problem.content_hash
        self.copy = shutil.copytree(self.folder, folder / "copy")
        self.before = files_in(self.copy)
        self.calls: list[bytes] = []

    def restore(self) -> None:
        """Restore everything."""
        self.calls.clear()
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)

    def harm(self) -> list[str]:
        """Return the changes since `restore`."""
        now, before = files_in(self.folder), self.before
        changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
        return [*changed, *(f"called with {call!r}" for call in self.calls)]

    def remains(self) -> set[str]:
        """Files that supervisors and their runs have not cleared up, and processes with the token."""
        found = {str(path) for path in self.scratch.rglob("*")}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if self.token.encode() in path.read_bytes():
                    found.add(f"process {path.parent.name}")
        return found

    def answer(self, server: socket.socket) -> None:
        """Accept and record every connection until the server is closed."""
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            with link:
                self.calls.append(link.recv(100))


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The place, whose paths solvers find in their environment."""
    place = Place(tmp_path_factory.mktemp("place"))
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere,
    ):
        service = f"{elsewhere}/service"
        for end, name in ((abstract, f"\0{place.token}"), (named, service)):
            end.bind(name)
            end.listen()
        for end in (server, abstract, named):
            threading.Thread(target=place.answer, args=(end,), daemon=True).start()
        told = {"ZOO_SERVICE": service, "ZOO_TOKEN": place.token, "ZOO_PORT": server.getsockname()[1]}
        told |= {"ZOO_INSTANCE": place.problem.path, "ZOO_DATABASE": place.results / FILE_NAME}
        told |= {"ZOO_PIDS": os.readlink("/proc/self/ns/pid"), "ZOO_MOUNTS": os.readlink("/proc/self/ns/mnt")}
        for name, value in {**told, "SHARDMARK_ENVIRONMENT": " ".join(told), "TMPDIR": place.scratch}.items():
            patch.setenv(name, str(value))
        patch.setattr(tempfile, "tempdir", None)
        yield place


class Referee:
    """A backend, its isolation and one supervisor, in which all runs take place, on one CPU."""

    def __init__(self, kind: tuple[str, str], zoo: dict[str, SolverInfo], place: Place) -> None:
        self.kind = kind
        self.zoo = zoo
        self.place = place
        self.supervisor = Supervisor(*kind)
        self.first = self.run("witness")  # loads the modules that runs need, so the second one is typical
        self.first = self.run("witness")

    def run(self, name: str, limits: Limits = AMPLE) -> Record:
        """Carry out a run; BenchExec gets more time, as it needs some to start."""
        time_s = limits.timeout_s * (2 if self.supervisor.backend == "benchexec" else 1)
        job = Job(self.zoo[name], self.place.problem, 0, replace(limits, timeout_s=time_s), self.place.results)
        return perform(job, self.supervisor, usable_cpus()[-1:])  # most other tests use the first CPU

    def control_groups(self) -> list[str]:
        """Return what is left of the control groups of the last run, which the supervisor has recorded."""
        record = Path(self.supervisor.folder, control_groups.RECORD)
        return [group for group in record.read_text().splitlines() if Path(group).exists()] if record.exists() else []

    def check_next(self) -> None:
        """Check that a run now equals the first one, whatever ran before it."""
        row, first = self.run("witness"), self.first
        for name in ("reason", "stop", "status", "log", "cost", "solution", "verified", "claimed", "enforced"):
            assert getattr(row, name) == getattr(first, name), f"{name} of a run that came to {row.stop} ({row.reason})"
        assert [(x.feasible, x.cost) for x in row.incumbents] == [(True, 10.0), (True, 6.0)]
        assert row.peak_mib < 1.25 * first.peak_mib + 16
        assert row.cpu_s < 2 * first.cpu_s + 0.5


@pytest.fixture(scope="module")
def referees(zoo: dict[str, SolverInfo], place: Place) -> Iterator[Callable[[tuple[str, str]], Referee]]:
    """A referee of each kind, made on first use; skips if the machine does not permit it."""
    made: dict[tuple[str, str], Referee] = {}
    refused: dict[tuple[str, str], str] = {}

    def referee(kind: tuple[str, str]) -> Referee:
        if kind not in made and kind not in refused:
            try:
                choose(*kind)
                made[kind] = Referee(kind, zoo, place)
            except InputError as error:
                refused[kind] = str(error)
        if kind in refused:
            pytest.skip(refused[kind])
        return made[kind]

    yield referee
    for each in made.values():
        each.supervisor.close()


# ---------------------------------------------------------------- expected rows


@dataclass(frozen=True)
class Case:
    """A solver of the zoo and the row it must get.

    ``reason`` and ``log`` are regular expressions; the first must match fully, the second somewhere. ``verified``
    follows from a ``cost``. ``harm`` lists the changes that the run made to its `Place`.
    """

    solver: str
    stop: str
    status: str
    reason: str = ""
    cost: float | None = None
    limits: Limits = AMPLE
    verified: str = ""
    log: str = ""
    harm: tuple[str, ...] = ()

    def may_be(self, row: Record) -> bool:
        """Return True if a run had enough time to reach its expected end."""
        return row.stop != "timeout" or (self.stop == "timeout" and (self.cost is None or bool(row.incumbents)))

    def check(self, row: Record) -> None:
        """Compare a row with the expected one."""
        found = (row.stop, row.status, row.cost, row.verified)
        verified = self.verified or ("nothing" if self.cost is None else "feasible")
        assert found == (self.stop, self.status, self.cost, verified), (row.reason, row.log)
        assert re.fullmatch(self.reason, row.reason), row.reason
        assert re.search(self.log, row.log), row.log
        assert row.cpu_s < 1.2 * row.cores * row.wall_s + 1.5  # its processes may run on until each is killed


def well(*solvers: str, **more: Any) -> tuple[Case, ...]:
    """Cases of solvers that report everything in one block, which costs 10, and end well."""
    return tuple(Case(name, "exit", "ok", cost=10.0, **more) for name in solvers)


LATE = r"killed at the time limit of [\d.]+ s( before the solver began: .*|; starting and reading .*)?"


def late(*solvers: str, cost: float | None = 10.0, limits: Limits = BRIEF) -> tuple[Case, ...]:
    """Cases of solvers that their time limit ends."""
    return tuple(Case(name, "timeout", "timeout", LATE, cost, limits) for name in solvers)


WORDLESS = "ended its process without reporting that it was done"
FULL = r"used \d+ MiB, the limit is [13]00 MiB"
PLAIN = r"ValueError: reported a (solution|bound) that is not plain JSON: .* \((zoo|values).py:\d+\)"
NO_FINITE = r"ValueError: reported a bound that is not a finite number: (inf|nan) \(values.py:\d+\)"

ENDS = (
    Case("segfaults", "crash", "crash", "killed by SIGSEGV"),
    Case("segfaults-in-a-thread", "crash", "crash", "killed by SIGSEGV", 10.0),
    Case("aborts", "crash", "crash", "killed by SIGABRT"),
    Case("overflows-the-stack", "crash", "crash", "killed by SIGSEGV"),
    Case("recurses", "error", "error", r"RecursionError: maximum recursion depth exceeded.*"),
    Case("raises", "error", "error", r"RuntimeError: the oracle is silent \(zoo.py:\d+\)", 10.0),
    Case("stray-bytes", "error", "error", r"ValueError: caf\ufffd \(zoo.py:\d+\)"),
    Case("raises-the-unprintable", "crash", "crash", "ended with exit status 1", log="Unprintable"),
    Case("raises-generator-exit", "crash", "crash", "ended with exit status 1", log="GeneratorExit"),
    Case("interrupts", "crash", "crash", "ended with exit status 1", 10.0, log="KeyboardInterrupt"),
    Case("leaves", "crash", "crash", WORDLESS),
    Case("exits", "crash", "crash", "ended with exit status 3"),
    Case("exits-with-zero", "crash", "crash", WORDLESS),
    Case("exits-with-a-text", "crash", "crash", "ended with exit status 1"),
    Case("becomes-another-program", "crash", "crash", WORDLESS, 10.0, log="replaced"),
    Case("uses-up-its-time", "killed", "killed", SIGKILLED, 10.0),
    Case("asks-for-alarms", "crash", "crash", "killed by SIGALRM", 10.0),
    Case("is-done-and-dies", "killed", "killed", SIGKILLED, 10.0),
    Case("declines", "declined", "declined", "more than zero nodes"),
    Case("declines-at-length", "declined", "declined", r"(no, thank you )+.*…"),
    Case("reports-at-exit", "exit", "ok", cost=6.0),
    *well("limits-itself"),
    Case("silent", "exit", "none", "reported no solution"),
    Case("broken-import", "import", "import", r"its file cannot be imported: ModuleNotFoundError: .*"),
    Case("exits-at-import", "import", "import", r"its file .* ended the process while it .* \(exit status 7\)"),
    Case("two-faced", "error", "error", r"RuntimeError: not today \(fails_in_a_run.py:\d+\)"),
)

HANGS = (
    *late("sleeps-through-sigterm", "stops-itself", "turns-the-clock-back", "is-done-and-hangs", "stuck"),
    *late("hangs-in-c", "declines-and-hangs", cost=None),
    *late("spins", cost=None, limits=briefly(cpu_s=5.0)),
)

NO_MESSAGE = "wrote bytes that are not a message into the referee's pipe"


def broken(fault: str, *solvers: str) -> tuple[Case, ...]:
    """Cases of solvers that break the protocol after a report."""
    return tuple(Case(name, "exit", "error", fault, 10.0) for name in solvers)


MESSAGES = (
    *broken(NO_MESSAGE, "breaks-pipe", "wrong-magic", "too-long-a-message", "lets-a-child-write"),
    *broken("sent a message whose checksum is wrong", "wrong-checksum", "half-a-message-and-more"),
    *broken("stopped in the middle of a message", "half-a-message", "promises-much"),
    Case("huge-message", "output", "output", "wrote more than 64 MiB.*", 10.0),
    Case("many-incumbents", "exit", "ok", cost=6.0, log=r".* last 500 of each kind, and dropped 99\d\d\d in between"),
    Case("floods", "exit", "ok", cost=6.0, log=r".* last 500 of each kind, and dropped 1001 in between"),
    *broken("a message was not valid JSON", "raw-nan", "raw-infinite-bound", "million-digits", "odd-messages"),
    *broken("sent a message of 100001 lists, .*", "deep-nesting"),
    Case("done-twice", "exit", "ok", cost=6.0),
    Case("odd-done", "crash", "crash", WORDLESS, 10.0),
    Case("long-error", "crash", "crash", WORDLESS, 10.0),
    Case("closes-its-pipes", "crash", "crash", "ended with exit status 1"),
    Case("loses-its-pipe", "crash", "crash", WORDLESS, 10.0),
    *well("prints", log=r"x\nthe end\n$"),
    Case("prints-a-gigabyte", "output", "output", "wrote more than 64 MiB.*", 10.0),
    *well("forges-its-memory", "prints-bytes", "swaps-its-output"),
)


def malformed(solver: str, reason: str) -> Case:
    """A report that is no solution at all."""
    return Case(solver, "exit", "infeasible", reason, verified="malformed")


def element(solver: str, found: str, place: str = "solution[0]") -> Case:
    """A report of the right length with something in it that is no block number."""
    return malformed(solver, re.escape(f"{place}: expected a stage from 0 to 1, found {found}"))


NO_BOUND = "reported a bound that is not a finite number"
NO_COST = "claimed a cost that is not a finite number"

VALUES = (
    malformed("wrong-length", "solution: expected 4 elements, one per node, found 3"),
    malformed("too-many", "solution: expected 4 elements, one per node, found 10000"),
    malformed("empty", "solution: expected 4 elements, one per node, found 0"),
    Case("lying-array", "exit", "error", "sent a message of 100003 values, a solution here has at most 65600"),
    malformed("nothing", "solution: expected a list of 4 integers, found null"),
    malformed("text", "solution: expected a list of 4 integers, found '0011'"),
    malformed("number", "solution: expected a list of 4 integers, found 6"),
    malformed(
        "wrong-keys",
        "solution: expected a list of 4 stages, or an object with the keys block and order, found 'blocks'",
    ),
    malformed(
        "more-keys",
        "solution: expected a list of 4 stages, or an object with the keys block and order, found 'block', 'cost'",
    ),
    malformed(
        "number-keys",
        "solution: expected a list of 4 stages, or an object with the keys block and order, found '0', '1', '2', '3'",
    ),
    malformed("no-order", "order: expected every node once, but node 1 is missing"),
    malformed("nonsense", "solution: expected a list of 4 integers, found true"),
    element("out-of-range", "2", "solution[2]"),
    element("negative", "-1", "solution[2]"),
    element("huge-integers", "an integer of 13288 bits"),
    element("floats", "0.0"),
    element("minus-zero", "-0.0"),
    element("booleans", "false"),
    element("strings", "'0'"),
    element("nulls", "null"),
    element("nested", "a list of 1"),
    element("two-dimensional", "a list of 4"),
    Case("cyclic", "exit", "infeasible", "solution: expected no cycle among the stages, .*", verified="infeasible"),
    *(
        Case(name, "error", "error", PLAIN)
        for name in ("nan", "numpy-nan", "not-json", "bytes", "set", "complex", "generator", "endless")
    ),
    Case("too-many-digits", "error", "error", r"ValueError: reported a solution that is not plain JSON: .*digits.*"),
    Case("lying-list", "exit", "ok", cost=6.0),
    *well("first-good-then-bad", "changes-the-instance", "optimist"),
    Case("patches-json", "crash", "crash", WORDLESS, verified="infeasible"),
    *(
        Case(f"bound-{name}", "exit", "error", NO_BOUND)
        for name in ("as-text", "as-bool", "as-list", "of-nothing", "beyond-floats")
    ),
    *(Case(name, "error", "error", NO_FINITE) for name in ("infinite-bound", "nan-bound")),
    *(Case(name, "exit", "ok") for name in ("bounds", "bound-of-numpy", "negative-bound", "exact-bound")),
    *well("claims-the-truth", "claims-the-truth-in-integers", "claims-too-much"),
    *(
        Case(f"claims-{name}", "exit", "misclaim", f"claims the cost {re.escape(cost)} for a solution of cost 10", 10.0)
        for name, cost in (("too-little", "9"), ("zero", "-0"), ("minus-a-lot", "-1e+300"))
    ),
    *(Case(f"claims-{name}", "exit", "error", NO_COST) for name in ("beyond-floats", "in-words", "yes")),
    Case("claims-nan", "error", "error", PLAIN),
    Case("liar", "exit", "contradiction", "claims the lower bound 1000000000, but has a solution of cost 10", 10.0),
)


def full(*solvers: str, cost: float | None = 10.0) -> tuple[Case, ...]:
    """Cases of solvers that use more than 300 MiB."""
    return tuple(Case(name, "memory", "memory", FULL, cost, TIGHT) for name in solvers)


MEMORY = (
    *full("allocates", "allocates-at-once", "allocates-and-leaves", "children-allocate", "orphan-allocates"),
    *full("shares-memory", "memory-files"),
    *full("spike", "hides-its-peak", "child-allocates", cost=None),
    *well("shares-what-it-may", limits=TIGHT, log=r"\[0, 0, 0, 0, 0, 0, 0, 0\]"),
    *well("reserves-much", limits=TIGHT),
    Case("runs-out", "error", "error", "ran out of memory", 10.0, TIGHT),
)


def crowded(*solvers: str) -> tuple[Case, ...]:
    """Cases of solvers that start too many processes."""
    reason = r"had \d+ processes at once, the limit is 100"
    return tuple(Case(name, "processes", "processes", reason, 10.0) for name in solvers)


def burning(*solvers: str) -> tuple[Case, ...]:
    """Cases of solvers that use more than half a second of CPU time."""
    reason = r"used \d\.\d s of CPU time, the limit is 0\.5 s"
    return tuple(Case(name, "cpu", "cpu", reason, 10.0, briefly(60.0, cpu_s=0.5)) for name in solvers)


PROCESSES = (
    *well("daemonises", "leaves-a-program", "child-holds-the-pipes", "fork-and-both-report", "reads-stdin"),
    *well("runs-threads", "takes-all-cores"),
    *well("thread-storm", limits=replace(AMPLE, processes=512)),
    *well("lists-what-is-open", log=r"^open:( pipe| /dev/null){3,5}$"),
    Case("leaves-its-child-reporting", "crash", "crash", WORDLESS, 10.0),
    *crowded("process-storm", "doubling-storm"),
    *burning("daemon-burns", "unwaited-children-burn", "children-burn"),
    Case("thread-horde", "processes", "processes", r"had \d+ threads at once, the limit is 400", 10.0),
)

#: Solvers that try to change control groups, as a process with rights in its own namespaces could.
CONTROL_GROUPS = (
    *late("freezes-process-1", "freezes-itself"),
    *crowded("hides-its-children"),
    *burning("hides-its-cpu-time"),
)

ATTACKS = (
    Case("patches-the-verifier", "exit", "infeasible", "solution: expected no cycle .*", verified="infeasible"),
    Case("patches-the-worker", "crash", "crash", WORDLESS),
    *well("speaks-for-the-supervisor"),
    *well("serves", log="hello"),
)

FOLDERS = (
    *well("uses-its-folder", log=r"temporary files go to True\nfound \['notes/one.txt'\]"),
    *well("deletes-its-folder", "locks-its-folder", "swaps-its-folder", "sparse-file"),
    *late("many-files"),
    Case("fills-its-folder", "output", "output", "wrote more than 64 MiB to its pipes and its folder", 10.0),
    Case("one-large-file", "output", "output", "wrote more than 64 MiB to its pipes and its folder", 10.0),
)

#: Only Unix, TCP, UDP and netlink sockets with their protocols, and no io_uring.
ODD_SOCKETS = r"^\[\(1, 0\), \(1, 1\)(, \((2|10), (0|6|17)\))*(, \(16, (0|6)\))*\]\n-1 Function not implemented\n$"
#: Solvers that only isolation contains.
GUARDED = (
    *well("looks-answers-up", log=r"^looked everywhere\n$"),
    *well("opens-a-socket", log="(refused|unreachable)\n.*refused\n.*refused"),
    *well("rewrites-the-instance", "writes-to-the-database", "links-to-the-database", "remounts"),
    *well("leaves-files-everywhere", "kills-everything", "kills-what-it-sees", "kills-its-parent", "stops-its-parent"),
    *well("traces-its-parent", "writes-into-its-parent", "limits-its-parent"),
    *well("tells-the-system", log="(Read-only|Permission).*\n$"),
    *well("opens-devices", log=r"^\[\]$"),
    *full("fills-sockets", "fills-sockets-that-nobody-wrote", "fills-tcp", "fills-netlink", "fills-udp"),
    *well("leaves-pages-in-a-pipe", limits=TIGHT, log="^Function not implemented\n$"),
    *well("opens-odd-sockets", log=ODD_SOCKETS),
)

#: Without isolation a file without a name is not measured.
OUT_OF_SIGHT = late("one-large-file")
#: With BenchExec the scratch folder counts as memory.
IN_MEMORY = (Case("one-large-file", "memory", "memory", FULL, 10.0, replace(TIGHT, memory_mib=100.0)),)
#: With BenchExec files in transit through a socket count.
ON_ITS_WAY = full("sends-files-to-itself")
#: With `posix` and isolation a run cannot make memfd files.
NO_FILES = well("sends-files-to-itself", "memory-files", limits=TIGHT, log="Function not implemented")
#: With BenchExec a run is in control groups, which it cannot leave.
GROUPED = well("leaves-its-group", log=r"^(Function not implemented\n)+$")

LOST = r"its supervisor ended \(.*\)"

DATABASE = tuple(f"results/{FILE_NAME}{suffix}" for suffix in ("", "-shm", "-wal"))
#: The same without isolation, except four solvers that would harm more than this test owns.
UNGUARDED = (
    *well("looks-answers-up", log=r"found catalog.toml\n(found .*\n){4,}looked everywhere"),
    *well("opens-a-socket", harm=("called with b'the answer, please'",) * 3),
    *well("rewrites-the-instance", harm=("instances/chain.gz", "instances/chain.json")),
    *well("writes-to-the-database", harm=DATABASE),
    *well("links-to-the-database", harm=("results/results.sqlite",)),
    *(Case(f"{what}-its-parent", "lost", "lost", LOST) for what in ("kills", "limits")),
    *(
        Case(f"{what}-its-parent", "lost", "lost", LOST, limits=briefly())
        for what in ("stops", "traces", "writes-into")
    ),
)


#: Solvers that also run without isolation and with BenchExec.
ELSEWHERE = (
    *("segfaults", "sleeps-through-sigterm", "prints-a-gigabyte", "uses-its-folder", "fills-its-folder"),
    *("swaps-its-folder", "one-large-file", "allocates-at-once", "child-allocates", "orphan-allocates"),
    *("memory-files", "shares-what-it-may", "daemonises", "child-holds-the-pipes", "leaves-its-child-reporting"),
    *("lists-what-is-open", "process-storm", "doubling-storm", "children-burn", "takes-all-cores", "thread-horde"),
    "unwaited-children-burn",
)
#: Solvers that control groups contain even without isolation; with `posix` a run has none of its own.
IN_GROUPS = ("freezes-process-1", "freezes-itself", "hides-its-children", "thread-horde")


def need_counter() -> None:
    """Skip if the system grants no performance counter."""
    clock = TreeClock.begin()
    if not clock.files:
        pytest.skip("the system grants no performance counter")
    clock.close()


def need_isolation(referee: Referee) -> None:
    """Skip if this machine does not permit isolation."""
    if "none" in (referee.first.enforced["network"], referee.first.enforced["files"]):
        pytest.skip(OBSTACLE or "isolation could not be had")


def cases() -> Iterator[object]:
    """Yield every case with each referee that must handle it; cases about messages alone run with one."""
    everything = (*ENDS, *HANGS, *MESSAGES, *VALUES, *MEMORY, *PROCESSES, *FOLDERS, *ATTACKS)
    telling = tuple(case for case in everything if case.solver in ELSEWHERE)
    for kind, rows in (
        (POSIX, (*everything, *GUARDED, *CONTROL_GROUPS, *NO_FILES)),
        (BARE, (*telling, *UNGUARDED, *OUT_OF_SIGHT)),
        (BENCHEXEC, (*telling, *GUARDED, *CONTROL_GROUPS, *IN_MEMORY, *ON_ITS_WAY, *GROUPED)),
        (BARE_GROUPS, tuple(case for case in (*everything, *CONTROL_GROUPS) if case.solver in IN_GROUPS)),
    ):
        for number, case in enumerate({case.solver: case for case in rows}.values()):
            # Most of what another referee has handled: `make thorough` only.
            again = kind in (BARE, BARE_GROUPS) or (kind == BENCHEXEC and case in (*telling, *GUARDED))
            later = (pytest.mark.thorough if number % 5 else pytest.mark.gate) if again else ()
            yield pytest.param(kind, case, id="-".join((*kind, case.solver)), marks=later)


@pytest.mark.parametrize(("kind", "case"), list(cases()))
def test_each_run_gets_its_row_and_leaves_the_next_unaffected(
    referees: Callable[[tuple[str, str]], Referee],
    kind: tuple[str, str],
    case: Case,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    referee = referees(kind)
    if case in GUARDED:
        need_isolation(referee)
    if case.solver == "unwaited-children-burn" and kind[0] == "posix":
        need_counter()
    before = place.remains()
    with monkeypatch.context() as patch:  # the next supervisor gets its full time to start
        if case.stop == "lost":
            patch.setattr(module, "GRACE_S", 2.0)
        row = given_time(
            lambda limit: referee.run(case.solver, replace(case.limits, timeout_s=limit)),
            lambda row: case.may_be(row),
            case.limits.timeout_s,
        )
    harm, left = place.harm(), place.remains() - before
    if harm:
        place.restore()
    case.check(row)
    assert referee.control_groups() == []
    if kind in (POSIX, BARE) and (THOROUGH or case not in VALUES[1::2]):  # elsewhere each run starts its own Python
        referee.check_next()
    if case.stop != "lost":  # a lost supervisor cannot clear up
        assert harm == list(case.harm)
        assert not left


def test_a_bound_above_the_optimum_counts_against_its_solver(
    zoo: dict[str, SolverInfo], place: Place, tmp_path: Path
) -> None:
    store = Store.open(tmp_path, create=True)
    number = store.add_campaign("2025-01-01T00:00:00+00:00", ["test"], "0", {})
    with Supervisor() as supervisor:
        for name in ("optimist", "good"):
            job = Job(zoo[name], place.problem, 0, AMPLE)
            store_record(store, number, job, perform(job, supervisor))
    scored = tables(store)
    store.close()
    assert scored.contradictions["solver"].to_list() == ["optimist"]
    assert (scored.contradictions["bound"].to_list(), scored.contradictions["cost"].to_list()) == ([8.0], [6.0])


@pytest.mark.gate
def test_a_simultaneous_run_is_unaffected(
    referees: Callable[[tuple[str, str]], Referee], zoo: dict[str, SolverInfo], place: Place
) -> None:
    if len(usable_cpus()) < 2:
        pytest.skip("two runs at once need two CPUs")
    referee = referees(POSIX)
    job = Job(zoo["steady"], place.problem, 0, AMPLE)
    rows: list[Record] = []
    with Supervisor(*POSIX) as other:
        other_run = threading.Thread(target=lambda: rows.append(perform(job, other, usable_cpus()[:1])))
        other_run.start()
        storms = ("process-storm", "allocates-at-once")
        while other_run.is_alive():
            for name in storms:
                referee.run(name, briefly(memory_mib=300.0, cpu_s=5.0))
        other_run.join()
    (row,) = rows
    assert (row.status, row.cost, row.solution) == ("ok", 6.0, [0, 0, 1, 1])
    assert 1.0 <= row.cpu_s < 1.5
    assert row.peak_mib < referee.first.peak_mib + 16
