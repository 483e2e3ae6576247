"""Runs of the backend ``posix``: the same tests with and without isolation."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from orders import AMPLE, order_of
from patience import given_time
from referee import ISOLATION, SIGKILLED, needs_isolation

from shardmark.harness.sandbox.backends.posix_backend import NamespaceRun, ProgramStart
from shardmark.harness.sandbox.contract import Limits, Outcome
from shardmark.harness.sandbox.outside import UNSENT
from shardmark.harness.sandbox.supervisor import Supervisor

pytestmark = pytest.mark.gate(cases=1)


@pytest.fixture(scope="module", params=ISOLATION)
def supervisor(request):
    with Supervisor("posix", request.param) as one:
        yield one


@pytest.fixture
def run(supervisor, tmp_path):
    """Carry out a body or a command."""

    def run(body: str = "", command: tuple[str, ...] = (), limits: Limits = AMPLE, **more) -> Outcome:
        return supervisor.run(order_of(tmp_path, body, command, limits, **more))

    return run


# ---------------------------------------------------------------- the environment of a run


TELL_LIMITS = "print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20)"


@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize(
    ("body", "log"),
    [
        ("print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])", "[0, 1, 2, 3]\n"),
        ("print([os.environ[n] for n in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS')])", "['1', '1']\n"),
        ("print(os.getpriority(os.PRIO_PROCESS, 0))", f"{os.getpriority(os.PRIO_PROCESS, 0)}\n"),
        (TELL_LIMITS, "(0, 0) 512\n"),
        ("print('one'); print('two', end=''); sys.stderr.write('!')", "one\ntwo!"),
        ("print('one', end=''); os.write(1, b'')\nsys.exit(4)", "one"),
    ],
    ids=["files", "threads", "priority", "limits", "lines", "a line"],
)
def test_a_run_prints_its_environment(run, body, log):
    assert run(body).log == log


def test_a_program_finds_standard_files_only(run):
    outcome = run(command=("sh", "-c", "ls /proc/self/fd >&2; echo '[0]'", "{instance}"))
    assert outcome.log.split() == ["0", "1", "2", "3"]  # the last is the listing's own


def test_it_has_its_own_folder(run):
    outcome = run(
        """
        import tempfile
        folder = os.getcwd()
        print(folder == os.environ["HOME"] == os.environ["TMPDIR"] == tempfile.gettempdir())
        open("note", "w").write("x")
        with tempfile.NamedTemporaryFile() as file:
            print(os.path.dirname(file.name) == folder)
        print(folder)
        """
    )
    assert outcome.log.split()[:-1] == ["True"] * 2
    assert not Path(outcome.log.split()[-1], "note").exists()


def test_signals_are_as_python_sets_them(run):
    outcome = run("print(*[n.name for n in signal.Signals if signal.getsignal(n) != signal.SIG_DFL])")
    expected = "import signal; print(*[n.name for n in signal.Signals if signal.getsignal(n) != signal.SIG_DFL])"

    def as_at_a_terminal():  # tests run in the background inherit some of them ignored
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)

    command = [sys.executable, "-c", expected]
    python = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=as_at_a_terminal).stdout
    assert set(outcome.log.split()) == set(python.split())


def test_a_program_finds_no_signal_ignored(run):
    outcome = run(command=("cat", "/proc/self/status", "{instance}"))
    blocked, ignored = (int(mask, 16) for mask in re.findall(r"Sig(?:Blk|Ign):\s+(\w+)", outcome.log))
    own = 1 << 31 | 1 << 32  # 32 and 33, which the C library reserves for itself
    assert (blocked, ignored & ~own) == (0, 0)


def test_a_run_cannot_leave_its_cores(run):
    cpu = min(os.sched_getaffinity(0))
    outcome = run(
        """
        def ask():
            os.sched_setaffinity(0, range(os.cpu_count()))
            print(sorted(os.sched_getaffinity(0)))
        ask()
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        print(subprocess.check_output(["sh", "-c", "taskset -p ff $$ >/dev/null; nproc"]).decode())
        """,
        cpus=(cpu,),
    )
    assert outcome.enforced["cores"] in ("hard", "none")
    if outcome.enforced["cores"] == "hard":
        assert outcome.log.split() == [f"[{cpu}]", f"[{cpu}]", "1"]


# ---------------------------------------------------------------- the end of a run


@pytest.mark.parametrize(
    ("body", "stop", "reason"),
    [
        ("sys.exit(3)", "crash", "ended with exit status 3"),
        ("sys.exit(-1)", "crash", "ended with exit status 255"),
        ("sys.exit(None)", "exit", ""),
        ("sys.exit('no')", "crash", "ended with exit status 1"),
        ("raise KeyboardInterrupt", "crash", "ended with exit status 1"),
        ("os._exit(9)", "crash", "ended with exit status 9"),
        ("os.abort()", "crash", "killed by SIGABRT"),
        ("ctypes.string_at(0)", "crash", "killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed", SIGKILLED),
        ("os.kill(os.getpid(), signal.SIGTERM)", "killed", f"killed by SIGTERM, {UNSENT}"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", "crash", "killed by signal 37"),
        ("os.closerange(1, 3)", "exit", ""),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "timeout", "killed at the time limit of 0.5 s"),
    ],
)
def test_the_end_of_a_run_is_reported_exactly(run, body, stop, reason):
    limits = Limits(0.5, 512.0) if stop == "timeout" else AMPLE
    outcome = run(body, limits=limits)
    assert outcome.stop == stop, outcome.log
    assert re.fullmatch(reason, outcome.reason)


def test_a_program_that_cannot_be_started_ends_as_in_a_shell(run, tmp_path):
    assert run(command=("/not/there", "{instance}")).reason == "ended with exit status 127"
    tmp_path.joinpath("plain").write_text("no program")
    assert run(command=(str(tmp_path / "plain"), "{instance}")).reason == "ended with exit status 126"


def test_nothing_outlives_it(run):
    outcome = run(
        """
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                os.write(writer, b"x")
                time.sleep(600)
            os._exit(0)
        os.read(reader, 1)
        """
    )
    assert outcome.stop == "exit"
    assert outcome.wall_s < 10


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "body",
    [
        """
        files = [file_in_memory("hoard") for _ in range(2)]
        try:
            for i in range(700):
                os.write(files[i % 2], b"x" * (1 << 20))
        except OSError:  # /dev/shm is full
            pass
        time.sleep(60)
        """,
        """
        file = file_in_memory("little")
        os.truncate(file, 4 << 20)
        kept = [mmap.mmap(file, 4 << 20, mmap.MAP_PRIVATE) for _ in range(250)]
        for copy in kept:
            copy.write(b"x" * (4 << 20))
        time.sleep(60)
        """,
    ],
    ids=["that nobody maps", "copied"],
)
def test_files_in_memory_count(run, body):
    assert run(body).stop == "memory"


@pytest.mark.gate
def test_a_file_in_memory_that_is_mapped_counts_once(run):
    outcome = run(
        """
        file = file_in_memory("array")
        os.truncate(file, 300 << 20)
        array = mmap.mmap(file, 300 << 20)
        for _ in range(300):
            array.write(b"x" * (1 << 20))
        if os.fork() == 0:
            sum(array[i] for i in range(0, 300 << 20, 4096))
            time.sleep(0.3)
            os._exit(0)
        os.wait()
        """
    )
    assert (outcome.stop, outcome.reason) == ("exit", "")
    assert 300 < outcome.peak_mib < 590  # counted twice, it would take 600; it grows during a measurement


@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(2000):\n    if os.fork() == 0: os.setsid(); time.sleep(60); os._exit(0)\ntime.sleep(60)",
        # At most 300 at once, each of which replaces itself by another for ten seconds.
        "end = time.time() + 10\nfor _ in range(300):\n    if os.fork() == 0:\n        break\n"
        "else:\n    time.sleep(60)\n"
        "while time.time() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()",
    ],
    ids=["sessions", "hopping"],
)
def test_a_storm_of_processes_is_ended(run, body):
    outcome = run(body, limits=Limits(30.0, 4096.0, processes=100))
    assert outcome.stop == "processes"
    assert outcome.reason.endswith("the limit is 100")


def test_threads_do_not_count_as_processes(run):
    body = """
        threads = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(200)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    assert run(body).stop == "exit"


def test_far_more_threads_than_processes_are_ended(run):
    body = "for _ in range(900): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntime.sleep(60)"
    outcome = run(body, limits=Limits(30.0, 512.0, processes=100))
    assert outcome.stop == "processes"
    assert re.fullmatch(r"had \d+ threads at once, the limit is 400", outcome.reason)


@pytest.mark.thorough(cases=3)
@pytest.mark.gate
@pytest.mark.parametrize(
    "body",
    [
        "while True: os.memfd_create('x')",
        "for _ in range(60):\n    if os.fork() == 0: break\nwhile True: os.dup(0)",
        "while True:\n    os.mkdir('d'); os.chdir('d')",
    ],
    ids=["files in memory", "open files", "deep folders"],
)
def test_slow_measurements_do_not_stop_the_clock(run, body):
    limits = Limits(0.5, 512.0, processes=100)
    body = f"try:\n{textwrap.indent(body, '    ')}\nexcept OSError:\n    time.sleep(60)"
    outcome = run(body, limits=limits)
    assert (outcome.stop, outcome.reason) == ("timeout", "killed at the time limit of 0.5 s")
    assert outcome.wall_s < 10


def test_a_key_is_not_found_by_the_next_run(run):
    body = """
        libc = ctypes.CDLL(None, use_errno=True)
        add_key, request_key = (217, 218) if os.uname().machine == "aarch64" else (248, 249)
        print(libc.syscall({}) > 0, ctypes.get_errno())
    """
    made = run(body.format("add_key, b'user', b'shardmark-test', b'x', 1, -3"))
    if made.log.split()[0] != "True":
        pytest.skip(f"the system keeps no keys: error {made.log.split()[1]}")
    assert run(body.format("request_key, b'user', b'shardmark-test', None, 0")).log.split()[0] == "False"


@pytest.mark.parametrize(
    "body",
    [
        "while True: print('x' * 1000)",
        "while True: os.write(2, b'x' * 1000)",
        "while True: run.send('solution', 'x' * 1000)",
        "for i in range(60): open(str(i), 'wb').write(b'x' * (1 << 20))\ntime.sleep(60)",
    ],
    ids=["stdout", "stderr", "messages", "files"],
)
def test_a_flood_is_cut(run, body):
    outcome = run(body)
    assert (outcome.stop, outcome.reason) == ("output", "wrote more than 16 MiB to its pipes and its folder")
    assert len(outcome.messages) <= 1000
    assert len(outcome.log) <= 17000


@pytest.mark.gate
def test_the_clock_stops_a_run_in_time(run):
    body = "run.report([0, 0])\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(600)"
    outcome = given_time(lambda limit: run(body, limits=Limits(limit, 512.0)), lambda outcome: outcome.messages, 0.6)
    assert outcome.stop == "timeout"
    limit = float(re.fullmatch(r"killed at the time limit of (\S+) s", outcome.reason)[1])
    assert limit <= outcome.wall_s < limit + 5
    assert len(outcome.messages) == 1


# ---------------------------------------------------------------- usage

SPIN = "n = 0\nfor i in range(3_000_000): n += i\n"
TELL = """
import resource
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(u.ru_utime + u.ru_stime for u in used))
"""
FORK = "import os\nfor _ in range(3):\n  if os.fork() == 0:\n    x = bytearray(b'x') * (100 << 20)\n"
WORK = {
    "alone": (150, f"x = bytearray(b'x') * (150 << 20)\n{SPIN}{TELL}"),
    "children": (100, f"{FORK}    exec({SPIN!r})\n    os._exit(0)\n  os.wait()\n{TELL}"),
}


@pytest.mark.gate
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("how", WORK)
def test_usage_of_a_program_agrees_with_the_system(run, how):
    filled_mib, code = WORK[how]
    outcome = run(command=(sys.executable, "-I", "-S", "-c", code, "{instance}"))
    assert outcome.stop == "exit", outcome.log
    # It ends after it has printed its usage.
    assert outcome.cpu_s == pytest.approx(float(outcome.log), rel=0.05, abs=0.06)
    assert filled_mib < outcome.peak_mib < filled_mib * 1.05 + 10  # plus the interpreter


def test_a_small_program_is_not_taken_for_the_fork_that_began_it(run):
    outcome = run(command=("sleep", "0.2"))
    assert outcome.reason in ("", "ended with exit status 1"), outcome.log
    outcome = run(command=("sh", "-c", "sleep 0.2; echo '[0]'", "{instance}"))
    assert 0 < outcome.peak_mib < 10


ORPHANS = """
    reader, writer = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            while time.process_time() < 0.4:
                pass
            os.write(writer, b"x")
        os._exit(0)
    os.wait()
    os.read(reader, 1)
    time.sleep(0.2)
"""
IGNORED = """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            while time.process_time() < 0.2:
                pass
            os._exit(0)
        with __import__("contextlib").suppress(ChildProcessError):
            os.wait()
"""


@pytest.mark.gate
@pytest.mark.parametrize(
    ("body", "least", "most"), [(ORPHANS, 0.4, 1.5), (IGNORED, 0.3, 0.7)], ids=["orphans", "ignored"]
)
def test_cpu_time_of_orphans_and_of_children_whose_end_is_ignored_counts(run, body, least, most):
    assert least <= run(body).cpu_s < most


@needs_isolation
def test_usage_is_measured_just_before_a_kill(tmp_path):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    run = object.__new__(NamespaceRun)
    run.limits = AMPLE
    run.program = ProgramStart(os.open(os.devnull, os.O_RDONLY), external=False)
    run.meter = SimpleNamespace(cpu_s=lambda most: 7.0, peak=0.0)
    run.clock = SimpleNamespace(read=lambda: 0.0, close=lambda: None)  # of a system that grants no counter
    room = {"init": pid, "scratch": os.open(tmp_path, os.O_RDONLY), "setup_cpu_s": 0.0, "setup_peak": 0}
    run.process = SimpleNamespace(**room, kill=lambda: os.kill(pid, signal.SIGKILL), close=lambda: None)
    assert run.finish().cpu_s == 7.0
    os.close(run.process.scratch)


def test_memory_of_the_supervisor_is_not_the_runs(run):
    outcome = run("pass")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert 5 < outcome.peak_mib < max(own, 60)
