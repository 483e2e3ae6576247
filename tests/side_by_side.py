"""Runs test files side by side in forks of the process that has collected them: ``pytest --forks=4``.

Each process of pytest-xdist would import all tests again, which takes it 8 CPU seconds.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import traceback
import warnings
from collections.abc import Iterator
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

#: The tests ``session.items[start:stop]``.
Part = tuple[int, int]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the number of processes."""
    parser.addoption(
        "--forks", type=int, default=0, help="run test files in so many processes, forked once they are known"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks; leave it to pytest if none are wanted or collecting has failed."""
    forks = session.config.getoption("forks")
    if not forks or session.testsfailed or session.config.option.collectonly:
        return None
    if any(re.fullmatch(r"polars-\d+", task.read_text().strip()) for task in Path("/proc/self/task").glob("*/comm")):
        raise pytest.UsageError("a test module computes with Polars while it is imported: forks would wait for ever")
    session.config._tmp_path_factory.getbasetemp()  # is made once, and has a folder for each process
    with contextlib.closing(Forks(session)) as running:
        running.run(forks)
    return True


class Forks:
    """The processes under way, by the parent's end of their pipes, and the parts that none of them has taken."""

    def __init__(self, session: pytest.Session) -> None:
        self.session, self.items = session, session.items
        self.left = list(parts(session.items))
        self.children: dict[Connection, Child] = {}

    def run(self, count: int) -> None:
        """Run all parts, ``count`` at a time; raise what ends the session."""
        for _ in range(min(count, len(self.left))):
            self.start()
        while self.children:
            for link in wait(list(self.children)):
                assert isinstance(link, Connection)
                self.handle(link)
                for ends, error in (
                    (self.session.shouldfail, self.session.Failed),
                    (self.session.shouldstop, self.session.Interrupted),
                ):
                    if ends:
                        raise error(ends)

    def start(self) -> None:
        """Fork a process that runs the next part."""
        link, theirs = Pipe()
        with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of threads; those of NumPy survive a fork
            pid = os.fork()
        if pid == 0:
            for other in (link, *self.children):
                other.close()
            work(self.session, theirs)
        theirs.close()
        self.children[link] = Child(pid, self.left[0][0])
        self.hand_out(link)

    def hand_out(self, link: Connection) -> None:
        """Send a process its next part, None if there is none."""
        part = self.left.pop(0) if self.left else None
        if part:
            self.children[link].parts.append(part)
        with contextlib.suppress(BrokenPipeError):  # it has ended: `handle` finds out
            link.send(part)

    def handle(self, link: Connection) -> None:
        """Take one message: a test begins, the report of a test, a request for the next part, or the end."""
        child, hook = self.children[link], self.session.config.hook
        try:
            kind, content = link.recv()
        except (EOFError, ConnectionResetError):
            self.settle(link)
            return
        if kind == "begins":
            child.test = content
            hook.pytest_runtest_logstart(nodeid=self.items[content].nodeid, location=self.items[content].location)
        elif kind == "next":
            self.hand_out(link)
        elif kind == "done":
            child.test = None
        else:
            report = hook.pytest_report_from_serializable(config=self.session.config, data=content)
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def settle(self, link: Connection) -> None:
        """Reap a process; if it has ended during a test, this fails, and another process runs what was left."""
        child = self.children.pop(link)
        link.close()
        _, status = os.waitpid(child.pid, 0)
        if child.test is None:
            return
        item = self.items[child.test]
        words = f"the process of this test has ended with status {os.waitstatus_to_exitcode(status)}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)
        self.left[:0] = child.not_begun()
        if self.left:
            self.start()

    def close(self) -> None:
        """End all processes: each notices at its next message that its pipe has closed, and clears up."""
        for link, child in self.children.items():
            link.close()
            os.waitpid(child.pid, 0)


class Child:
    """A process, the number of the test that it runs, None after the last, and all parts that it was sent."""

    def __init__(self, pid: int, test: int) -> None:
        self.pid = pid
        self.test: int | None = test
        self.parts: list[Part] = []

    def not_begun(self) -> list[Part]:
        """Return what comes after the test that it runs."""
        assert self.test is not None
        at, stop = next((at, stop) for at, (start, stop) in enumerate(self.parts) if start <= self.test < stop)
        rest = [(self.test + 1, stop), *self.parts[at + 1 :]]
        return [(start, stop) for start, stop in rest if start < stop]


def parts(items: list[pytest.Item]) -> Iterator[Part]:
    """Yield where in the list the tests of each file are."""
    start = 0
    for _, tests in groupby(items, key=lambda item: item.path):
        stop = start + len(list(tests))
        yield start, stop
        start = stop


def work(session: pytest.Session, link: Connection) -> None:
    """Run the parts that are sent, and end this process, which is a fork."""
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.read_global_capture()
    capture.stop_global_capturing()  # its files are those of all processes
    capture.start_global_capturing()
    config.get_terminal_writer()._file = io.StringIO()  # the parent tells
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / f"fork-{os.getpid()}"
    factory._basetemp.mkdir(mode=0o700)
    config.pluginmanager.register(Reporter(config, link))
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, EOFError, KeyboardInterrupt):
            run_parts(session, link)
        session._setupstate.teardown_exact(None)
    except BaseException:
        capture.stop_global_capturing()
        traceback.print_exc()
    finally:
        os._exit(0)


def run_parts(session: pytest.Session, link: Connection) -> None:
    """Run the tests of each part that is sent, until there is none.

    The next part is asked for before the last test of a part, whose fixtures end up to those that the next test has.
    """
    part = link.recv()
    while part:
        start, stop = part
        for number in range(start, stop):
            link.send(("begins", number))
            if number == stop - 1:
                link.send(("next", None))
                part = link.recv()
            following = number + 1 if number < stop - 1 else part[0] if part else None
            session.config.hook.pytest_runtest_protocol(
                item=session.items[number], nextitem=None if following is None else session.items[following]
            )
    link.send(("done", None))


class Reporter:
    """Sends the reports of tests to the parent."""

    def __init__(self, config: pytest.Config, link: Connection) -> None:
        self.config, self.link = config, link

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send one report."""
        data: Any = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.link.send(("report", data))
