"""After a run: its messages are decoded and verified; one row holds why it ended, its claims and its true results."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.records import Bound, Incumbent, decimal
from shardmark.harness.sandbox.contract import KILLED, Limits, Outcome
from shardmark.harness.sandbox.protocol import (
    CERTIFICATE,
    Message,
    ProtocolError,
    decode,
    is_number,
    lists_in,
    values_in,
)
from shardmark.harness.verify import Verdict, certificates, longest_solution, malformed, verify

#: Limits on values and keys in a message, and on lists and objects among them: a constant and a number per node. A
#: longer message is no solution, and parsing it can take a hundred times its length of the referee's memory.
MOST_VALUES, MOST_VALUES_PER_NODE = 1 << 16, 16
MOST_LISTS, MOST_LISTS_PER_NODE = 1000, 2
SENTENCE = 500  # characters kept of a reason
LATE = 0.5  # part of the time limit; a solver that begins later is told from one that is too slow
MOST_REMARKS = 10  # remarks on messages of a run, at most
BEGINNING = 60  # bytes quoted of a message that cannot be read
#: Statuses of runs that ended by a fault, not by a limit or by themselves.
FAULTS = ("error", "crash", "import", "lost", KILLED)


class Reports:
    """Messages of a run in order of arrival: their claims, and the findings of the verifier.

    ``incumbents``     all solutions, verified, as they arrived           ``bounds``        all lower bounds
    ``cost``           least verified cost, None without one              ``solution``      the one of that cost
    ``claimed_cost``   least cost claimed for a solution, None if none    ``misclaim``      the first that was too low
    ``verified``       verdict on the best, as in `results.schema`        ``violation``     the rule it breaks, if any
    ``word``           the last message that says how it ends             ``fault``         first breach of the protocol
    ``refused``        number of messages that do not count, infeasible solutions among them
    ``remarks``        a sentence on each of the first `MOST_REMARKS` of these
    """

    def __init__(self, instance: Any, outcome: Outcome) -> None:
        self.instance = instance
        self.longest = longest_solution(instance)
        self.most_values = MOST_VALUES + MOST_VALUES_PER_NODE * instance.nodes
        self.most_lists = MOST_LISTS + MOST_LISTS_PER_NODE * instance.nodes
        self.incumbents: list[Incumbent] = []
        self.bounds: list[Bound] = []
        self.cost: int | float | None = None
        self.solution: Any = None
        self.verified, self.violation = "nothing", ""
        self.claimed_cost: int | float | None = None
        self.misclaim = self.fault = ""
        self.refused, self.remarks = 0, list[str]()
        self.word: Message | None = None
        self._certificate = b""
        for arrival, payload in outcome.messages:
            self.take(arrival, payload)
        if outcome.fault:
            self._fail(outcome.fault)
            self.remark(outcome.fault)

    @property
    def lower_bound(self) -> int | float | None:
        """Greatest bound, None without one."""
        return max((bound.value for bound in self.bounds), default=None)

    @property
    def peak_mib(self) -> float:
        """Peak memory that the solver's process measured itself: measurements from outside can miss a spike."""
        return self.word.value / 2**20 if self.word is not None and self.word.kind == "done" else 0.0

    def certificate(self, checksum: str) -> dict[str, Any] | None:
        """Return the last certificate that can be read, for an instance with this checksum; None without one."""
        if not self._certificate:
            return None
        try:
            told = decode(self._certificate)
        except ProtocolError as error:
            self.remark(f"the certificate does not count: {error}")
            return None
        names = {"format": certificates.FORMAT, "track": self.instance.track, "instance": checksum}
        return {**names, "bound": told.cost, "proof": told.value}

    def annotated(self, log: str) -> str:
        """Return the run's log followed by a line for each message that does not count, a limited number."""
        remarks = list(self.remarks)
        if more := self.refused - len(remarks):
            remarks.append(f"{more} more of the messages did not count")
        end = "\n" if log and remarks and not log.endswith("\n") else ""
        return log + end + "".join(f"(referee: {remark})\n" for remark in remarks)

    def claimed(self, outcome: Outcome, external: bool) -> dict[str, Any]:
        """Return the claims of the run as they are stored."""
        return {
            "end": self.end(outcome, external),
            "cost": decimal(self.claimed_cost),
            "lower_bound": decimal(self.lower_bound),
            "solutions": len(self.incumbents),
            "bounds": len(self.bounds),
        }

    def end(self, outcome: Outcome, external: bool) -> str:
        """Return how a run ended, by its report or a program's exit status: "done", "declined", "error", "nothing"."""
        if external:
            return "done" if outcome.stop == "exit" else "nothing"
        return self.word.kind if self.word is not None else "nothing"

    def take(self, arrival: float, payload: bytes) -> None:
        """Decode one message, and verify the solution that it may hold; a certificate is kept as it is."""
        if payload.startswith(CERTIFICATE) and len(payload) <= certificates.LARGEST:
            self._certificate = payload
            return None
        for count, most, words in (
            (len(payload), self.longest, "bytes"),
            (lists_in(payload), self.most_lists, "lists"),
            (values_in(payload), self.most_values, "values"),
        ):
            if count > most:
                fault = f"sent a message of {count} {words}, a solution here has at most {most}"
                return self._refuse(arrival, fault, payload)
        try:
            message = decode(payload)
        except ProtocolError as error:
            return self._refuse(arrival, str(error), payload)
        if message.kind == "solution":
            self._judge(arrival, message)
        elif message.kind == "bound":
            self.bounds.append(Bound(arrival, message.value))
        else:  # later messages, from threads of the solver, take nothing back
            self.word = message
        return None

    def _refuse(self, arrival: float, fault: str, payload: bytes) -> None:
        """Record that a message cannot be read, and its beginning."""
        self._fail(fault)
        beginning = payload[:BEGINNING].decode(errors="replace") + "…" * (len(payload) > BEGINNING)
        self.remark(f"the message at {arrival:.3f} s does not count: {fault}; it begins {beginning}")

    def remark(self, words: str) -> None:
        """Note a message that does not count: keep a sentence if it is among the first."""
        self.refused += 1
        if len(self.remarks) < MOST_REMARKS:
            self.remarks.append(sentence(words))

    def _fail(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _judge(self, arrival: float, message: Message) -> None:
        """Verify a solution, and compare its cost with the cost claimed for it."""
        verdict = self._verify(message.value)
        cost, claim = verdict.cost, message.cost
        self.incumbents.append(Incumbent(arrival, verdict.feasible, cost))
        if claim is not None:
            self.claimed_cost = claim if self.claimed_cost is None else min(claim, self.claimed_cost)
        if not verdict.feasible or cost is None:
            found = "malformed" if cost is None else "infeasible"
            self.remark(f"the solution at {arrival:.3f} s is {found}: {verdict.violations[0]}")
            if self.verified in ("nothing", "malformed", found):
                self.verified, self.violation = found, verdict.violations[0]
            return
        self.verified = "feasible"
        if claim is not None and undercuts(claim, cost) and not self.misclaim:
            self.misclaim = f"claims the cost {_shown(claim)} for a solution of cost {_shown(cost)}"
        if self.cost is None or cost < self.cost:
            self.cost, self.solution = cost, message.value

    def _verify(self, solution: Any) -> Verdict:
        """Return the verdict on a solution; a verifier that fails is a fault, which must not end a campaign."""
        try:
            verdict = verify(self.instance, solution)
            if verdict.cost is None or is_number(verdict.cost):
                return verdict
            reason = "its cost is beyond the range of float64"
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        self._fail(f"sent a solution that the referee could not verify: {reason}")
        return malformed(reason)


def undercuts(claim: int | float, cost: int | float) -> bool:
    """Return True if a claimed cost lies below the true one: at all for ints, beyond the tolerance for floats."""
    return contradicts(cost, claim, isinstance(claim, int) and isinstance(cost, int))


def merge(kind: str, limits: Limits, outcome: Outcome, sent: Reports, external: bool = False) -> tuple[str, str, str]:
    """Return ``(stop, status, reason)``: why a run ended, the value of its result, and a sentence.

    A broken limit decides ``stop``, else the run's own last word, else its lack. A refuted claim decides ``status``,
    however the run ended; else ``stop``, if the run did not end by itself; else a breach of the protocol, unless a
    program printed something good as well; else the verdict.
    """
    stop, reason = outcome.stop, outcome.reason
    end = sent.end(outcome, external)
    if stop in ("exit", "crash", KILLED) and end in ("declined", "error"):
        stop, reason = end, str(sent.word.value if sent.word else "")
    elif stop == "exit" and end == "nothing" and not outcome.fault:  # after such a fault no word could be read
        stop, reason = "crash", "ended its process without reporting that it was done"
    elif stop == "exit" and sent.peak_mib > limits.memory_mib:
        stop, reason = "memory", limits.memory_reason(sent.peak_mib)
    cost, bound = sent.cost, sent.lower_bound
    if cost is not None and bound is not None and contradicts(bound, cost, isinstance(cost, int)):
        return (
            stop,
            "contradiction",
            f"claims the lower bound {_shown(bound)}, but has a solution of cost {_shown(cost)}",
        )
    if sent.misclaim:
        return stop, "misclaim", sent.misclaim
    if stop == "halted" and (cost is not None or (kind == "bound" and bound is not None)):
        return stop, "ok", sentence(reason)
    if stop == "timeout" and cost is None and bound is None:
        reason += late_start(outcome.begun_s, limits.timeout_s)
    if stop != "exit":
        return stop, stop, sentence(reason) or "gave no reason"
    answered = cost is not None or (kind == "bound" and bound is not None)
    if sent.fault and not (external and answered):
        return stop, "error", sentence(sent.fault)
    if answered:
        return stop, "ok", ""
    if sent.violation:
        return stop, "infeasible", sentence(sent.violation)
    return stop, "none", "reported no solution" if kind == "solver" else "reported no lower bound"


def late_start(begun_s: float | None, timeout_s: float) -> str:
    """Return what to add to the reason of a run killed without a result: how late its solver began."""
    if begun_s is None:
        return " before the solver began; the limit includes starting and reading the instance"
    return f"; starting and reading the instance took {begun_s:.1f} s of it" if begun_s > LATE * timeout_s else ""


def sentence(text: str) -> str:
    """Return a text of unknown origin as one printable line of limited length."""
    line = " ".join(text[: 2 * SENTENCE].split())
    plain = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return plain if len(plain) <= SENTENCE else f"{plain[: SENTENCE - 1]}…"


def _shown(value: float) -> str:
    """Return every digit of a cost or bound; a whole number without a point, as in tables."""
    return repr(value).removesuffix(".0")
