"""The worker: the process of a run, which loads instance and solver and reports over a pipe.

``python -m shardmark.harness.sandbox.worker ARGUMENTS``, of which

``run CHANNEL DEADLINE ORDER...``  are one run, see `main`
``list PLACES``    print the solvers that files and packages declare; PLACES is a JSON list, the output one JSON object
                   per line
``survey PLACES``  print the same, preceded by the versions of all installed packages
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from shardmark.harness.sandbox.contract import Order
from shardmark.harness.sandbox.memory import OUT_OF_MEMORY, peak_bytes
from shardmark.harness.sandbox.protocol import encode
from shardmark.instances import InputError, load_hashed, track_module, tracks
from shardmark.instances.evaluator import Evaluator
from shardmark.solvers import registry

#: Files whose frames are not where a user's code raised an error.
OURS = tuple(os.path.realpath(file) for file in (__file__, registry.__file__, str(sys.modules["shardmark"].__file__)))
#: A folder on the path of packages that are installed, as in a virtual environment next to the user's code.
INSTALLED = f"{os.sep}site-packages{os.sep}"
#: Least seconds between two certificates, also as a multiple of the seconds that writing the last one took.
APART_S, REST = 0.5, 20.0


def verdict(instance: Any, solution: Any) -> Any:
    """Return the referee's verdict on a solution; only runs import it and NumPy, not a process that lists solvers."""
    from shardmark.harness.verify import verify_reported

    return verify_reported(instance, solution)


Evaluator.verdict = staticmethod(verdict)


class PipeRun(registry.Run):
    """A run that reports to the referee through a pipe.

    Only the last certificate counts, but a run that is killed needs one too. So the first is written at once, others at
    most every `APART_S` seconds or `REST` times as long as writing the last one took, and the last one at the end.
    """

    def __init__(self, channel: int, deadline: float, **limits: Any) -> None:
        super().__init__(**limits)
        self._channel = channel
        self.deadline = deadline
        self._unwritten: tuple[float, registry.Proof] | None = None
        self._rests_until = 0.0

    def send(self, kind: str, *values: Any) -> None:
        """Write one message completely, however long it is."""
        try:
            frame = memoryview(encode(kind, *values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"reported a {kind} that is not plain JSON: {error}") from None
        while frame:
            frame = frame[os.write(self._channel, frame) :]

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Send a solution, and the cost that the solver claims for it."""
        self.send("solution", solution, cost)

    def bound(self, value: float, certificate: registry.Proof | None = None) -> None:
        with contextlib.suppress(TypeError, OverflowError):  # no number, or a whole one of any size
            if not math.isfinite(value):
                raise ValueError(f"reported a bound that is not a finite number: {value}")
        self.send("bound", value)
        if self.certify and certificate is not None:
            self._unwritten = value, certificate
            if time.monotonic() >= self._rests_until:
                self.write_certificate()

    def write_certificate(self) -> None:
        """Send the last certificate, unless it has been sent."""
        if self._unwritten is None:
            return
        (value, certificate), self._unwritten, began = self._unwritten, None, time.monotonic()
        self.send("certificate", value, certificate())
        ended = time.monotonic()
        self._rests_until = ended + max(APART_S, REST * (ended - began))


def main(arguments: list[str]) -> int:
    """Carry out a command of the referee.

    CHANNEL is the file descriptor of the message pipe, DEADLINE a value of `time.monotonic`. ORDER is a
    `shardmark.harness.sandbox.contract.Order` as JSON, split into several arguments because Linux limits the length of
    each.
    """
    action, *rest = arguments
    if action == "run":
        channel, deadline, *pieces = rest
        run_order(Order.from_json(json.loads("".join(pieces))), int(channel), float(deadline))
    else:
        list_places(json.loads(rest[0]), survey=action == "survey")
    return 0


def warm_up() -> None:
    """Import and initialise what every run needs; a process that forks runs calls this once, before the first."""
    import shardmark.harness.verify  # noqa: F401

    for track in tracks():
        track_module(track)
    b"".decode("utf-8-sig")
    peak_bytes()


def run_order(order: Order, channel: int, deadline: float) -> None:
    """Carry out one run; its last message is ``done``, ``declined`` or ``error``, the first ``begun`` if it begins."""
    if channel == 0:  # BenchExec closes all files but the standard ones
        channel = os.dup(0)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
    os.set_inheritable(channel, False)
    limits = order.limits
    run = PipeRun(
        channel, deadline, seed=order.seed, cores=limits.cores, memory=limits.memory_mib, certify=order.certify
    )
    try:
        solver, instance = find_solver(order), load_instance(order)
        run.send("begun")
        try:
            answer = solver(instance, run)
        finally:
            run.write_certificate()
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
        run.send("error", one_line(error, order.file))
    else:
        run.send("done", peak_bytes())


def load_instance(order: Order) -> Any:
    """Return the instance; InputError if its content is not that of the order's checksum."""
    instance, checksum = load_hashed(order.instance, order.track, keep=False, **order.options)
    if checksum != order.checksum:
        raise InputError(order.instance, "", "expected the content that was first read, but the file has changed")
    return instance


def find_solver(order: Order) -> Callable[[Any, registry.Run], Any]:
    """Return the solver's function with its parameters filled in."""
    for solver in registry.load(order.file):
        if solver.name == order.solver and solver.track == order.track:
            return lambda instance, run: solver.function(instance, run, **{**solver.params, **order.settings})
    raise LookupError(f"{order.file} no longer declares {order.solver}")


def list_places(places: list[str], *, survey: bool) -> NoReturn:
    """Import solver files and packages and print what each declares; ``survey`` prints installed packages first.

    Ends the process at once, so that nothing set up by an import, such as an exit handler, runs any more.
    """
    process = os.getpid()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the imports goes to the log
    if survey:
        versions = {place: registry.source_hash(place) for place in registry.installed()}
        print(json.dumps({"installed": versions}), file=answer, flush=True)
    for place in places:
        try:
            line = json.dumps({"end": place, "solvers": [describe(s) for s in registry.load(place)]}, allow_nan=False)
        except MemoryError:
            line = json.dumps({"end": place, "error": OUT_OF_MEMORY})
        except Exception as error:
            line = json.dumps({"end": place, "error": one_line(error, place)})
        if os.getpid() == process:  # not in a fork left by the import
            print(line, file=answer, flush=True)
    os._exit(0)


def describe(solver: registry.Solver) -> dict[str, Any]:
    """Return a solver's declaration as plain JSON."""
    names = ("name", "track", "kind", "source", "description", "deterministic", "proves_bounds")
    return {name: getattr(solver, name) for name in names} | {"params": dict(solver.params)}


def one_line(error: BaseException, file: str) -> str:
    """Return an exception as one line: type, text and where the user's code raised it, or has its syntax error.

    The user's code is all of ``file``'s folder, except packages that are installed there; the line in other
    code counts if none of it was running. The sentence of an InputError needs no type before it.
    """
    text = " ".join(str(error).split())
    place = ""
    with contextlib.suppress(IndexError):
        places = ((os.path.realpath(x.filename), x.lineno) for x in traceback.extract_tb(error.__traceback__))
        frames = [(name, line) for name, line in places if name not in OURS]
        home = f"{Path(file).parent}{os.sep}"
        below = [(name, line) for name, line in frames if name.startswith(home)]
        name, line = ([x for x in below if INSTALLED not in x[0].removeprefix(home)] or frames)[-1]
        place = f" ({Path(name).name}:{line})"
    if isinstance(error, SyntaxError) and isinstance(error.filename, str) and error.lineno:
        text, place = " ".join(str(error.msg).split()), f" ({Path(error.filename).name}:{error.lineno})"
    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
    return f"{kind}{text[:500]}{place}" if text else f"{type(error).__name__}{place}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
