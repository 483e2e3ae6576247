"""The child side of a run: loads the instance and the solver, and reports over a pipe.

``python -m harness.sandbox.worker run JOB...``   one run; JOB is JSON, see `main`
``python -m harness.sandbox.worker list PLACES``  what solver files and packages declare, a JSON list: JSON lines
``python -m harness.sandbox.worker survey PLACES``  the same, and first the versions of all installed packages
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from harness.sandbox.memory import OUT_OF_MEMORY, peak_bytes
from harness.sandbox.protocol import encode
from instances import InputError, load_hashed, track_module, tracks
from solvers import registry


class PipeRun(registry.Run):
    """A run whose reports travel to the referee."""

    def __init__(self, channel: int, deadline: float, **limits: Any) -> None:
        super().__init__(**limits)
        self._channel = channel
        self.deadline = deadline

    def send(self, kind: str, *values: Any) -> None:
        """Write one message; whole, however long it is."""
        try:
            frame = memoryview(encode(kind, *values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"reported a {kind} that is not plain JSON: {error}") from None
        while frame:
            frame = frame[os.write(self._channel, frame) :]

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Send a solution, and the cost that the solver claims for it."""
        self.send("solution", solution, cost)

    def bound(self, value: float) -> None:
        """Send a lower bound."""
        self.send("bound", value)


def main(arguments: list[str]) -> int:
    """Do what the referee asked for.

    A JOB has ``channel`` (file descriptor), ``instance`` (path), ``checksum``, ``track``, ``options``, ``solver``
    (name), ``file`` (path), ``settings`` (parameters that are not as declared), ``seed``, ``cores``, ``memory`` and
    ``deadline``. It may come in pieces, one an argument, as systems limit the length of each.
    """
    action, text = arguments[0], "".join(arguments[1:])
    if action in ("list", "survey"):
        list_places(json.loads(text), survey=action == "survey")
    run_job(json.loads(text))
    return 0


def warm_up() -> None:
    """Import and set up what every run needs: a process that forks runs does so once, before the first."""
    for track in tracks():
        track_module(track)
    b"".decode("utf-8-sig")
    peak_bytes()


def run_job(job: dict[str, Any]) -> None:
    """One run: the last message is ``done``, ``declined`` or ``error``."""
    channel = job["channel"]
    if channel == 0:  # all files but the standard ones were closed on the way here
        channel = os.dup(0)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
    os.set_inheritable(channel, False)
    run = PipeRun(channel, job["deadline"], seed=job["seed"], cores=job["cores"], memory=job["memory"])
    try:
        answer = find_solver(job)(load_instance(job), run)
        if answer is not None:
            run.report(answer)
    except registry.Declined as declined:
        run.send("declined", str(declined))
    except MemoryError:
        run.send("error", "ran out of memory")
    except BrokenPipeError:
        pass  # the referee has gone
    except Exception as error:
        traceback.print_exc()
        run.send("error", one_line(error))
    else:
        run.send("done", peak_bytes())


def load_instance(job: dict[str, Any]) -> Any:
    """The instance, the very content that the referee knows."""
    instance, checksum = load_hashed(job["instance"], job["track"], keep=False, **job["options"])
    if checksum != job["checksum"]:
        raise InputError(job["instance"], "", "expected the content that the campaign began with, it has changed")
    return instance


def find_solver(job: dict[str, Any]) -> Callable[[Any, registry.Run], Any]:
    """The solver's function with its parameters filled in."""
    for solver in registry.load(job["file"]):
        if solver.name == job["solver"] and solver.track == job["track"]:
            return lambda instance, run: solver.function(instance, run, **{**solver.params, **job["settings"]})
    raise LookupError(f"{job['file']} no longer declares {job['solver']}")


def list_places(places: list[str], *, survey: bool) -> NoReturn:
    """Import solver files and packages; write what each declares, and before that with ``survey`` which packages are.

    Ends the process at once: nothing that an import has set up runs any more.
    """
    process = os.getpid()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a solver prints while it is imported is log
    if survey:
        versions = {place: registry.source_hash(place) for place in registry.installed()}
        print(json.dumps({"installed": versions}), file=answer, flush=True)
    for place in places:
        try:
            line = json.dumps({"end": place, "solvers": [describe(s) for s in registry.load(place)]}, allow_nan=False)
        except MemoryError:
            line = json.dumps({"end": place, "error": OUT_OF_MEMORY})
        except Exception as error:
            line = json.dumps({"end": place, "error": one_line(error)})
        if os.getpid() == process:  # and no fork that the import has left
            print(line, file=answer, flush=True)
    os._exit(0)


def describe(solver: registry.Solver) -> dict[str, Any]:
    """What a solver declares, as plain JSON."""
    return {
        "name": solver.name,
        "track": solver.track,
        "kind": solver.kind,
        "source": solver.source,
        "description": solver.description,
        "params": dict(solver.params),
        "deterministic": solver.deterministic,
    }


def one_line(error: BaseException) -> str:
    """An exception as one line: its type, its text, and where it was raised; of a syntax error where it stands."""
    text = " ".join(str(error).split())
    place = ""
    with contextlib.suppress(IndexError):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f" ({Path(frame.filename).name}:{frame.lineno})"
    if isinstance(error, SyntaxError) and isinstance(error.filename, str) and error.lineno:
        text, place = " ".join(str(error.msg).split()), f" ({Path(error.filename).name}:{error.lineno})"
    return f"{type(error).__name__}: {text[:500]}{place}" if text else f"{type(error).__name__}{place}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
