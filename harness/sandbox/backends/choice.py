"""The choice of a backend for this machine: once per campaign, by a trial run that does nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from shardmark.harness.sandbox.backends.namespaces import isolation_error_in_subprocess
from shardmark.harness.sandbox.contract import MEASURES, Limits, Order, Outcome
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes, sha256

WORDS = {"hard": "hard", "polled": "polled", "none": "not held"}  # values of `Outcome.enforced` in words
NOT_ISOLATED = "runs are not isolated on this machine: they can use the network and change your files"
#: Limits of the trial run, ample for a Python interpreter that does nothing.
TRIAL = Limits(timeout_s=20.0, memory_mib=256.0)


@dataclass(frozen=True)
class Backend:
    """A backend that works here, its isolation, how it enforces each of `MEASURES`, and why no better one was chosen.

    ``warning`` is a sentence for users who expect isolation if there is none, else "".
    """

    name: str
    isolation: str
    enforced: dict[str, str]
    why: str = ""
    warning: str = ""
    started: list[Supervisor] = field(default_factory=list, repr=False, compare=False)

    def supervisor(self) -> Supervisor:
        """Return a supervisor that carries out runs with it, first the one that the trial has started and kept."""
        return self.started.pop() if self.started else Supervisor(self.name, self.isolation)

    def __str__(self) -> str:
        return described(self.name, self.enforced) + (f", because {self.why}" if self.why else "")


def described(name: str, enforced: Mapping[str, str]) -> str:
    """Return a sentence on a backend and how it enforces each of `MEASURES`."""
    ways = {word: [measure for measure in MEASURES if enforced.get(measure) == way] for way, word in WORDS.items()}
    held = [f"{', '.join(measures)} {word}" for word, measures in ways.items() if measures]
    return f"{name} ({'; '.join(held)})"


def choose(limits: str = "auto", isolation: str = "auto", *, keep: bool = False) -> Backend:
    """Return the best backend that works here and that ``limits``, one of `LIMITS`, allows; InputError if none does.

    Any backend that isolates is better than one that does not. With ``keep`` the supervisor of the trial waits for the
    first run, until it is closed or this process ends.
    """
    names = ("benchexec", "posix") if limits == "auto" else (limits,)
    failures: list[str] = []
    for kind in dict.fromkeys((isolation, "none")):
        warning = f"{NOT_ISOLATED} ({'; '.join(failures)})" if kind != isolation else ""
        for name in names:
            with ExitStack() as stack:
                supervisor = stack.enter_context(Supervisor(name, kind))
                outcome = trial(supervisor)
                failure = outcome.reason if outcome.stop != "exit" else unmeasured(outcome) or unisolated(outcome, kind)
                if not failure:
                    backend = Backend(name, kind, outcome.enforced, "; ".join(failures), warning)
                    if keep:
                        backend.started.append(supervisor)
                        stack.pop_all()
                    return backend
            if failure not in failures:
                failures.append(failure)
    raise InputError(
        "limits", limits, f"expected a machine on which this backend can enforce limits ({'; '.join(failures)})"
    )


def trial(supervisor: Supervisor) -> Outcome:
    """Run a program that does nothing; its instance is this file, so that none is left if it is killed."""
    command = (sys.executable, "-I", "-S", "-c", "pass")
    cpus = (min(os.sched_getaffinity(0)),)
    return supervisor.run(Order("", __file__, sha256(read_bytes(__file__)), {}, "nothing", "", 0, TRIAL, cpus, command))


def unmeasured(outcome: Outcome) -> str:
    """Return why a backend that claims to enforce memory hard cannot measure it, "" if it can."""
    if outcome.enforced.get("memory") == "hard" and not outcome.peak_mib:
        return "the control groups of this machine do not report the peak memory of a run"
    return ""


def unisolated(outcome: Outcome, isolation: str) -> str:
    """Return why a run was not isolated although it should be, "" if it was."""
    if isolation == "none" or "none" not in (outcome.enforced["network"], outcome.enforced["files"]):
        return ""
    return isolation_error_in_subprocess() or "isolation failed"
