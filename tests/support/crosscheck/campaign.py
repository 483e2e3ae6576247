"""Runs of all methods on many instances, each instance in a child that can be killed; results as JSON lines."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from crosscheck import methods, tracks
from crosscheck.check import Contradiction, contradictions
from crosscheck.claims import Claims, claims
from crosscheck.draws.strata import Drawn
from shardmark.instances import load, track_module

#: Seconds that a method has after its limit, for judging its solutions as well, before it is killed; times the limit.
GRACE, PATIENCE = 30.0, 5

#: Bytes that a child may map.
MOST_MEMORY = 6 * 2**30


@dataclass(frozen=True)
class Task:
    """An instance to check: a seed of a track, or a file."""

    track: str
    seed: int
    file: str = ""

    def drawn(self) -> Drawn:
        """Return the instance."""
        if self.file:
            return Drawn(load(self.file, self.track), "file", Path(self.file).stem)
        return tracks.drawn(self.track, self.seed)


@dataclass
class Result:
    """The claims of all methods on an instance."""

    track: str
    seed: int
    mode: str = "not drawn"
    kind: str = ""
    nodes: int = 0
    claims: dict[str, Claims] = field(default_factory=dict)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return the result as plain JSON."""
        by_method = {name: claims.document() for name, claims in self.claims.items()}
        return {**vars(self), "claims": by_method}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Result:
        """Return the result of a document."""
        by_method = {name: Claims.of(claims) for name, claims in document["claims"].items()}
        return cls(**{**document, "claims": by_method})

    def contradictions(self) -> list[Contradiction]:
        """Return the contradictions between the claims."""
        return contradictions(self.track, self.claims)


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    ``seconds``     time limit of a method
    ``only``        patterns of the names of methods; all run if there are none
    ``restricted``  a planted fault: methods see an instance from which something was dropped, see `restrict`
    """

    seconds: float = 1.0
    only: tuple[str, ...] = ()
    restricted: bool = False


def perform(task: Task, settings: Settings, tell: Callable[[dict[str, Any]], None], done: Iterable[str] = ()) -> None:
    """Run the methods that are not done yet on an instance; tell what begins and what was claimed."""
    drawn = task.drawn()
    facts = {"mode": drawn.mode, "kind": drawn.kind, "nodes": drawn.instance.nodes}
    tell({"drawn": facts})
    instance = tracks.restricted(drawn.instance, task.seed) if settings.restricted else drawn.instance
    if instance is None:
        return
    for name, method in methods.chosen(task.track).items():
        if name in done or (settings.only and not any(fnmatch(name, pattern) for pattern in settings.only)):
            continue
        tell({"begins": name})
        tell({"method": name, "claims": claims(method, instance, settings.seconds, task.seed)[0].document()})


def check(task: Task, settings: Settings) -> Result:
    """Run the methods on an instance in this process."""
    result = Result(task.track, task.seed)

    def hear(message: dict[str, Any]) -> None:
        vars(result).update(message.get("drawn", {}))
        if "method" in message:
            result.claims[message["method"]] = Claims.of(message["claims"])

    perform(task, settings, hear)
    return result


def _child(end: connection.Connection, task: Task, settings: Settings, done: tuple[str, ...]) -> None:
    """Be the process of an instance: without output, in a session of its own, with bounded memory."""
    os.setsid()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    known = {*sys.modules}
    try:
        perform(task, settings, lambda message: end.send_bytes(json.dumps(message).encode()), done)
    except BaseException:
        end.send_bytes(json.dumps({"failed": traceback.format_exc(limit=-5)}).encode())
        raise
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    end.send_bytes(json.dumps({"seconds": seconds, "modules": sorted({*sys.modules} - known)}).encode())


class _Attempt:
    """The child of an instance, a new one after each that died."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task, self.settings, self.result = task, settings, Result(task.track, task.seed)
        self._begin()

    def _begin(self) -> None:
        context = get_context("fork")
        self.end, theirs = context.Pipe(duplex=False)
        done = tuple(self.result.claims)
        self.process = context.Process(target=_child, args=(theirs, self.task, self.settings, done), daemon=False)
        self.process.start()
        theirs.close()
        self.running, self.failed = "", ""
        self.deadline = time.monotonic() + GRACE

    def hear(self) -> bool:
        """Take a message; return True if the instance is done."""
        try:
            message = json.loads(self.end.recv_bytes())
        except EOFError:
            return self._ended()
        if "drawn" in message:
            self.result.__dict__.update(message["drawn"])
        elif "begins" in message:
            self.running = message["begins"]
        elif "failed" in message:
            self.failed = message["failed"]
        elif "method" in message:
            self.result.claims[message["method"]] = Claims.of(message["claims"])
            self.running = ""
        else:
            self.result.seconds = round(self.result.seconds + message["seconds"], 2)
            _import(message["modules"])
        self.deadline = time.monotonic() + GRACE + PATIENCE * self.settings.seconds
        return False

    def kill(self) -> None:
        """Kill the child and all that it started."""
        assert self.process.pid is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # a child that died may have left others, which keep its pipe
        except ProcessLookupError:
            self.process.kill()  # it has no session yet, or is gone

    def _ended(self) -> bool:
        """Note how the child died; go on without the method that killed it."""
        self.process.join()
        self.end.close()
        code = self.process.exitcode or 0
        if not code:
            return True
        how = "killed: out of time" if code == -signal.SIGKILL else f"the process ended with status {code}"
        self.result.claims[self.running or "draw"] = Claims(failed=self.failed or how)
        if not self.running:
            return True
        self._begin()
        return False


def _import(modules: Iterable[str]) -> None:
    """Import what a child had to import late, engines above all, so that later children need not."""
    for name in modules:
        with suppress(ImportError):
            import_module(name)


def run(tasks: Iterable[Task], settings: Settings, jobs: int) -> Iterator[Result]:
    """Check instances, several at once; yield results as they are complete."""
    waiting, active = iter(tasks), list[_Attempt]()
    for track in tracks.TRACKS:  # imported once, before children share it
        methods.chosen(track)
        import_module(f"crosscheck.draws.{track}")
    try:
        while True:
            while len(active) < jobs and (task := next(waiting, None)) is not None:
                active.append(_Attempt(task, settings))
            if not active:
                return
            ready = connection.wait([attempt.end for attempt in active], timeout=1.0)
            for attempt in [attempt for attempt in active if attempt.end in ready]:
                if attempt.hear():
                    active.remove(attempt)
                    yield attempt.result
            for attempt in active:
                if time.monotonic() > attempt.deadline:
                    attempt.kill()
    finally:
        for attempt in active:
            attempt.kill()


def read(folder: Path, track: str) -> list[Result]:
    """Return the results of a track in a folder, by seed; a damaged line, or one cut short by a kill, is left out."""
    file, found = folder / f"{track}.jsonl", dict[int, Result]()
    for count, line in enumerate(file.read_bytes().splitlines() if file.exists() else [], start=1):
        try:
            result = Result.of(json.loads(line))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            print(f"{file}: line {count} is no result and is left out", file=sys.stderr)
        else:
            found[result.seed] = result
    return [found[seed] for seed in sorted(found)]


def append(folder: Path, result: Result) -> None:
    """Add a result to the file of its track, at once; a line that a kill cut short ends first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{result.track}.jsonl").open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            file.write(b"" if file.read() == b"\n" else b"\n")
        file.write(json.dumps(result.document()).encode() + b"\n")


def write_instance(folder: Path, task: Task) -> Path:
    """Write the instance of a seed into a file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task.track}-{task.seed}.json"
    path.write_text(json.dumps(track_module(task.track).to_document(task.drawn().instance)))
    return path
