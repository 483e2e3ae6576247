"""Isolation: an isolated run reaches nothing outside, and has all it needs inside."""

from __future__ import annotations

import errno
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from orders import order_of
from referee import backend_here, needs_isolation

from shardmark.harness.sandbox.backends import mounts, namespaces, visible_files
from shardmark.harness.sandbox.contract import BackendError, Limits
from shardmark.harness.sandbox.supervisor import Supervisor

pytestmark = [needs_isolation, pytest.mark.gate(cases=1)]
LIMITS = Limits(timeout_s=20.0, memory_mib=512.0, processes=100, output_mib=16.0)


@pytest.fixture(scope="module")
def supervisor():
    with Supervisor("posix", "auto") as one:
        yield one


@pytest.fixture(scope="module", params=["posix", "benchexec"])
def isolating(request):
    """A supervisor of each backend that isolates: both set up a run's namespaces in the same way."""
    backend = backend_here(request.param)
    if backend.isolation == "none":
        pytest.skip(backend.why)
    with backend.supervisor() as one:
        yield one


@pytest.fixture
def sh(isolating, tmp_path):
    """Run a shell script and return its output."""

    def sh(script: str) -> str:
        command = ("sh", "-c", f"exec 2>&1; {script}", "{instance}")
        outcome = isolating.run(order_of(tmp_path, command=command, limits=LIMITS))
        assert outcome.enforced["network"] == outcome.enforced["files"] == "hard"
        return outcome.log

    return sh


@pytest.fixture
def run(isolating, tmp_path):
    """Run the body of a Python solver."""
    return lambda body: isolating.run(order_of(tmp_path, body, limits=LIMITS))


@pytest.fixture
def run_forked(supervisor, tmp_path):
    """The same with backend ``posix``, which measures memory itself and has its own process 1."""
    return lambda body: supervisor.run(order_of(tmp_path, body, limits=LIMITS))


@pytest.mark.gate
def test_nothing_outside_can_be_written(sh, tmp_path):
    victim = tmp_path / "results.sqlite"
    victim.write_text("precious")
    for place in (Path.cwd(), Path.home(), Path("/"), Path("/etc"), Path("/var/tmp"), Path(__file__).parent):
        message = sh(f"touch '{place}/shardmark-test'")
        assert re.search("[Rr]ead-only|Permission denied|No such file", message) or place.is_relative_to("/tmp"), place
        assert not (place / "shardmark-test").exists()
    sh(f"echo spoiled > '{victim}'; rm -f '{victim}'; mv '{tmp_path}' /tmp/gone; chmod 777 '{victim}'")
    assert victim.read_text() == "precious"


@pytest.mark.gate
def test_its_folder_lies_in_the_memory_that_it_may_use(run_forked):
    outcome = run_forked("open('file', 'wb').write(b'x' * (10 << 20))\ntime.sleep(0.3)")
    assert outcome.stop == "exit", outcome.log
    without = run_forked("time.sleep(0.3)")
    assert 8 < outcome.peak_mib - without.peak_mib < 20


@pytest.mark.gate
def test_a_file_in_its_folder_that_is_mapped_counts_once(run_forked):
    outcome = run_forked(
        """
        file = open("file", "w+b")
        file.truncate(14 << 20)
        mapped = mmap.mmap(file.fileno(), 14 << 20)
        for _ in range(14):
            mapped.write(b"x" * (1 << 20))
        time.sleep(0.3)
        """
    )
    without = run_forked("time.sleep(0.3)")
    assert 12 < outcome.peak_mib - without.peak_mib < 20


def test_files_in_tmp_are_seen_by_their_run_only(sh, tmp_path):
    name = f"/tmp/shardmark-test-{os.getpid()}"
    told = sh(f"echo x > {name} && cat {name}")
    assert told == "x\n"
    assert not Path(name).exists()
    assert sh(f"ls {name}") != f"{name}\n"


def test_the_temporary_folder_holds_only_what_the_run_needs(sh, run, tmp_path):
    assert "tmp" in str(tmp_path)
    assert run("print(instance.nodes)").log == "2\n"
    (tmp_path.parent / "results.csv").write_text("12")
    shared = visible_files.view_of("").shown  # with the checkout, if that lies in the temporary folder
    others = " ".join(f"-path {shlex.quote(str(path))} -prune -o" for path in shared)
    assert {Path(name).name for name in sh(f"find /tmp {others} -type f -print").split()} == {"two.json"}


def test_rights_cannot_be_taken_back(sh, run):
    assert re.findall(r"Cap(?:Prm|Eff|Inh|Amb):\s+(\w+)", sh("cat /proc/self/status")) == ["0" * 16] * 4
    outcome = run(
        """
        libc = ctypes.CDLL(None, use_errno=True)
        print([libc.mount(None, path, None, 0x1000 | 0x20, None) for path in (b"/", b"/tmp", b"/proc")])
        print([libc.umount2(path, 2) for path in (b"/proc", b"/dev", b"/tmp", b"/run")])
        print(libc.unshare(0x10020000) or [libc.mount(None, b"/", None, 0x1000 | 0x20, None), libc.umount2(b"/dev", 2)])
        try:
            open("/etc/shardmark-test", "w")
        except OSError as error:
            print(error.strerror)
        """
    )
    lines = outcome.log.splitlines()
    assert lines[:2] == ["[-1, -1, -1]", "[-1, -1, -1, -1]"]
    assert lines[2] in ("[-1, -1]", "-1")
    assert lines[3] in ("Read-only file system", "Permission denied")


def test_it_sees_and_reaches_no_process_but_its_own(run_forked):
    outcome = run_forked(
        """
        print(os.getpid(), sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM):
            os.kill(1, number)
        for path in ("environ", "mem", "maps", "auxv"):
            try:
                open(f"/proc/1/{path}", "rb").read(1)
            except OSError as error:
                print(error.strerror)
        print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))
        run.report([0, 1])
        """
    )
    assert outcome.stop == "exit"
    assert outcome.log.splitlines() == ["2 [1, 2]", *["Permission denied"] * 4, "-1"]


def test_killing_everything_it_may_leaves_the_supervisor_unharmed(run_forked, supervisor):
    first = run_forked("print(os.getpid())")
    before = supervisor.process.pid
    outcome = run_forked("os.kill(-1, signal.SIGKILL)\ntime.sleep(0.2)\nrun.report([0, 1])")
    assert (first.stop, outcome.stop) == ("exit", "exit")
    assert supervisor.process.pid == before


def test_it_has_no_network(run):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0shardmark-test")
        abstract.listen()
        outcome = run(
            f"""
            import socket
            for family, address in (
                (socket.AF_INET, ("127.0.0.1", {server.getsockname()[1]})),
                (socket.AF_INET, ("192.0.2.1", 80)),
                (socket.AF_UNIX, "\\0shardmark-test"),
            ):
                try:
                    socket.socket(family).connect(address)
                    print("connected")
                except OSError as error:
                    print(error.strerror)
            """
        )
    assert set(outcome.log.splitlines()) <= {"Network is unreachable", "Connection refused"}


@pytest.mark.parametrize("shown", [True, False])
def test_sockets_outside_cannot_be_reached(run, tmp_path, shown):
    path = f"{tmp_path if shown else '/var/tmp'}/shardmark-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as named:
        try:
            named.bind(path)
            named.listen()
            outcome = run(
                f"""
                import socket
                with socket.socket(socket.AF_UNIX) as mine:
                    mine.bind("own")
                    mine.listen()
                    socket.socket(socket.AF_UNIX).connect("own")
                try:
                    socket.socket(socket.AF_UNIX).connect({path!r})
                    print("connected")
                except OSError as error:
                    print(error.strerror)
                """
            )
        finally:
            os.unlink(path)
    assert outcome.log == ("Connection refused\n" if shown else "No such file or directory\n")


def test_a_run_gains_no_rights_in_namespaces(run):
    limit = Path("/proc/sys/user/max_user_namespaces")
    before = limit.read_text()
    outcome = run("print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000), ctypes.get_errno())")
    assert outcome.log == f"-1 {errno.ENOSPC}\n"
    assert limit.read_text() == before


def test_a_run_has_no_memory_that_outlives_its_processes(run):
    outcome = run(
        """
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.shmget(0, ctypes.c_size_t(1 << 20), 0o1600), libc.msgget(0, 0o1600))
        """
    )
    assert outcome.log == "-1 -1\n"


def test_reports_of_earlier_runs_are_not_in_its_memory(supervisor, tmp_path):
    tell = order_of(tmp_path, "for _ in range(3): run.report(list(range(71_000, 76_000)))", limits=LIMITS)
    outcome = supervisor.run(tell)
    assert len(outcome.messages) == 4
    search = """
        if os.fork() == 0:  # only the child knows the pattern to search for
            sought = [", ".join(map(str, range(71_003, 71_006))), ",".join(map(str, range(71_003, 71_006)))]
            found = 0
            with open(f"/proc/{os.getppid()}/maps") as maps, open(f"/proc/{os.getppid()}/mem", "rb", 0) as memory:
                for line in maps:
                    first, last = (int(word, 16) for word in line.split()[0].split("-"))
                    try:
                        memory.seek(first)
                        content = memory.read(last - first)
                    except (OSError, ValueError, OverflowError):
                        continue
                    found += sum(content.count(text.encode()) for text in sought)
            print(found, flush=True)
            os._exit(0)
        os.wait()
    """
    (tmp_path / "next").mkdir()
    assert supervisor.run(order_of(tmp_path / "next", search, limits=LIMITS)).log == "0\n"


def test_devices_are_few(sh):
    assert set(sh("ls /dev").split()) <= {*namespaces.DEVICES, "fd", "shm", "stdin", "stdout", "stderr"}
    assert sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c").split() == ["3", "2"]


def test_services_are_hidden_and_system_settings_are_read_only(sh):
    assert sh("ls -A /run").strip() == ""
    for name in ("sys/kernel/core_pattern", "self/oom_score_adj", "self/clear_refs"):
        assert "Read-only" in sh(f"echo 0 > /proc/{name}")


def test_multiprocessing_works(run):
    outcome = run(
        """
        from multiprocessing import get_context, shared_memory
        with get_context("fork").Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
        memory = shared_memory.SharedMemory(create=True, size=1 << 20)
        memory.unlink()
        print(memory.size, os.listdir("/dev/shm"))
        """
    )
    assert outcome.log.splitlines() == ["[1, 2]", f"{1 << 20} []"]


@pytest.mark.gate
def test_shared_memory_that_nobody_maps_counts(run):
    outcome = run("for i in range(5): open(f'/dev/shm/{i}', 'wb').write(b'x' * (150 << 20))\ntime.sleep(60)")
    assert outcome.stop == "memory"


def test_a_folder_full_of_bytes_or_files_breaks_the_output_limit(run_forked):
    fill = "while True: file.write(b'x' * (1 << 20))"
    outcome = run_forked(f"file = open('large', 'wb')\n{fill}")
    assert (outcome.stop, outcome.reason) == ("output", "wrote more than 16 MiB to its pipes and its folder")
    outcome = run_forked(f"file = open('/tmp/large', 'wb')\nos.unlink('/tmp/large')\n{fill}")
    assert outcome.stop == "output" or b"No space left on device" in outcome.messages[-1][1]
    outcome = run_forked("for i in range(10**6): open(str(i), 'w').close()")
    assert b"No space left on device" in outcome.messages[-1][1]


def test_folders_that_are_hidden_but_needed_can_be_read(tmp_path):
    hidden = Path("/dev/shm", f"shardmark-test-{os.getpid()}")
    hidden.mkdir()
    try:
        with Supervisor("posix", "auto") as supervisor:
            outcome = supervisor.run(order_of(hidden, "print(instance.nodes)\nopen(__file__, 'a')", limits=LIMITS))
        assert outcome.log.startswith("2\n")
        assert b"Read-only" in outcome.messages[-1][1]
    finally:
        for file in hidden.rglob("*.*"):
            file.unlink()
        subprocess.run(["rm", "-r", hidden], check=True)


def test_mounts_become_read_only_one_by_one_on_older_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(mounts, "MOUNT_SETATTR", 100_000)
    assert one_thread(namespaces.isolation_error) == ""


def test_the_reason_for_missing_isolation_is_reported(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "the system does not let us")

    monkeypatch.setattr(namespaces, "mount_sandbox", refuse)
    assert one_thread(namespaces.isolation_error) == "isolation: the system does not let us"
    monkeypatch.setattr(namespaces.prctl, "clone_into", refuse)
    assert namespaces.isolation_error() == "isolation: the system does not let us"
    with pytest.raises(BackendError, match="does not let us"):
        namespaces.start(namespaces.Sandbox(Path(), 1, 1), lambda: None)


def test_process_1_ends_a_run_that_the_supervisor_did_not(tmp_path):
    def told():
        sandbox = namespaces.Sandbox(tmp_path, namespaces.SMALL, namespaces.SMALL, until=time.monotonic() + 0.2)
        run = namespaces.start(sandbox, lambda: time.sleep(60))
        ready = select.select([run.link], [], [], 30)[0]
        return f"{len(ready)} {run.ended()} {os.waitpid(run.init, 0)[1] >> 8}"

    assert one_thread(told) == "1 -9 1"


def test_another_processor_is_refused(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "vax")
    assert namespaces.isolation_error() == "isolation: expected a processor x86_64, found vax"


def one_thread(ask):
    """Call a function in a process that has one thread, as `namespaces.start` needs."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, ask().encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as answer:
        return answer.read()


def test_a_test_of_these_has_one_thread():
    assert one_thread(lambda: str(threading.active_count())) == "1"


def test_a_run_cannot_make_process_1_end_before_its_time(tmp_path):
    def ring():
        for _ in range(20):
            os.kill(1, signal.SIGALRM)
            time.sleep(0.01)
        os._exit(7)

    def told():
        sandbox = namespaces.Sandbox(tmp_path, namespaces.SMALL, namespaces.SMALL, until=time.monotonic() + 60)
        run = namespaces.start(sandbox, ring)
        select.select([run.link], [], [], 30)
        return str(run.ended())

    assert one_thread(told) == "7"


def test_a_trial_leaves_no_folder_even_if_it_is_killed(monkeypatch, tmp_path):
    def kill(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(namespaces, "start", kill)
    assert one_thread(namespaces.isolation_error) == ""
    assert not any(tmp_path.iterdir())


def test_sockets_are_found_whatever_their_names():
    path = f"/var/tmp/shardmark-test-{os.getpid()} \x85\u2028\r\t."
    with socket.socket(socket.AF_UNIX) as named:
        try:
            named.bind(path)
            assert path in namespaces.named_sockets()
        finally:
            os.unlink(path)
