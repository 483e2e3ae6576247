"""Any messages of a run become a row: its end, its claims and its verified results are kept apart, then merged."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.jobs import Job, judge
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results import judgement as judging
from shardmark.harness.results.database import Store
from shardmark.harness.results.judgement import sentence, undercuts
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.contract import Limits, Outcome
from shardmark.harness.sandbox.protocol import KINDS
from shardmark.harness.verify import LONGEST
from shardmark.instances.files.jsonfile import write_json

LIMITS = Limits(timeout_s=10.0, memory_mib=1024.0)

INTEGRAL = {
    "problem": {
        "name": "one",
        "nodes": {"intervals": [[0, 1], [0, 1]], "costs": [[10**18, 10**18 + 1], [0]], "usages": [[1, 1], [1]]},
        "edges": {"nodes": [], "costs": []},
        "usage_limit": 5,
    }
}


@pytest.fixture(scope="module")
def integral(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Two nodes whose costs are 10^18 or one more."""
    path = tmp_path_factory.mktemp("instances") / "one.json"
    write_json(path, INTEGRAL)
    return Problem("one", path, "intraop")


def text(*message: Any) -> bytes:
    """The payload of a message."""
    return json.dumps(message).encode()


def judged(
    problem: Problem,
    *payloads: bytes,
    kind: str = "solver",
    command: tuple[str, ...] = (),
    certify: bool = False,
    **facts,
) -> Record:
    """The row of a run that sent these payloads, a second apart."""
    solver = SolverInfo("s", problem.track or "", kind, "s.py", "h", command=command)
    outcome = Outcome(messages=[(float(at), payload) for at, payload in enumerate(payloads)], **facts)
    return judge(Job(solver, problem, 0, LIMITS, certify=certify), problem.instance, "now", outcome)


DONE = text("done", 1000)
GOOD, WORSE = [0, 0, 1, 1], [0, 0, 0, 0]
CYCLIC = [0, 1, 0, 1]
NONSENSE = text("solution", 5)
BELOW = text("solution", GOOD, 5.9)


LATE = {"stop": "timeout", "reason": "late"}
BROKEN_LIMITS = ("timeout", "cpu", "memory", "processes", "output", "lost")


@pytest.mark.parametrize(
    ("payloads", "facts", "stop", "status", "verified", "end", "reason"),
    [
        ([text("solution", GOOD), DONE], {}, "exit", "ok", "feasible", "done", ""),
        ([DONE], {}, "exit", "none", "nothing", "done", "reported no solution"),
        ([], {}, "crash", "crash", "nothing", "nothing", "ended its process without reporting"),
        ([text("solution", GOOD)], {"fault": "broke off"}, "exit", "error", "feasible", "nothing", "broke off"),
        ([DONE, text("solution", GOOD)], {}, "exit", "ok", "feasible", "done", ""),
        ([text("solution", GOOD)], {}, "crash", "crash", "feasible", "nothing", "ended its process"),
        ([text("solution", CYCLIC), DONE], {}, "exit", "infeasible", "infeasible", "done", "expected no cycle"),
        ([text("solution", [9]), DONE], {}, "exit", "infeasible", "malformed", "done", "expected 4 elements"),
        ([text("solution", CYCLIC), NONSENSE, DONE], {}, "exit", "infeasible", "infeasible", "done", "cycle"),
        ([NONSENSE, text("solution", CYCLIC), DONE], {}, "exit", "infeasible", "infeasible", "done", "cycle"),
        ([text("solution", GOOD), NONSENSE, DONE], {}, "exit", "ok", "feasible", "done", ""),
        ([text("declined", "too large")], {}, "declined", "declined", "nothing", "declined", "too large"),
        ([text("declined", " ")], {}, "declined", "declined", "nothing", "declined", "gave no reason"),
        ([text("solution", GOOD), text("error", "oops")], {}, "error", "error", "feasible", "error", "oops"),
        ([text("error", "oops")], {"stop": "crash", "reason": "died"}, "error", "error", "nothing", "error", "oops"),
        ([DONE], {"stop": "crash", "reason": "died late"}, "crash", "crash", "nothing", "done", "died late"),
        *(
            ([text("solution", GOOD), last], {"stop": stop, "reason": "why"}, stop, stop, "feasible", claimed, "why")
            for stop in BROKEN_LIMITS
            for claimed, last in (("declined", text("declined", "x")), ("error", text("error", "x")), ("done", DONE))
        ),
        ([], {"stop": "import", "reason": "no module"}, "import", "import", "nothing", "nothing", "no module"),
        ([text("solution", GOOD), text("done", 2**40)], {}, "memory", "memory", "feasible", "done", "used 1048576 MiB"),
        ([text("solution", GOOD), b"{", DONE], {}, "exit", "error", "feasible", "done", "a message was not valid JSON"),
        ([text("bound", "x"), b"{", DONE], {}, "exit", "error", "nothing", "done", "a bound that is not a finite"),
        ([DONE], {"fault": "stopped in the middle"}, "exit", "error", "nothing", "done", "stopped in the middle"),
        ([b"{"], LATE, "timeout", "timeout", "nothing", "nothing", "late"),
        ([BELOW, DONE], {}, "exit", "misclaim", "feasible", "done", "claims the cost 5.9 for a"),
        ([BELOW], LATE, "timeout", "misclaim", "feasible", "nothing", "of cost 6"),
        ([BELOW, text("bound", 7), DONE], {}, "exit", "contradiction", "feasible", "done", "claims the lower bound 7"),
    ],
)
def test_every_end_is_merged_by_one_rule(chain, payloads, facts, stop, status, verified, end, reason):
    row = judged(chain, *payloads, **facts)
    assert (row.stop, row.status, row.verified, row.claimed["end"]) == (stop, status, verified, end)
    assert reason in row.reason
    assert (row.reason == "") == (status == "ok")
    assert row.cost == (6.0 if verified == "feasible" else None)
    assert (row.solution is None) == (row.cost is None)


def test_claims_are_kept_apart_from_verified_values(chain):
    sent = [text("solution", WORSE, 12.5), text("solution", GOOD, 6.0), text("bound", 4), text("bound", 5.5)]
    row = judged(chain, *sent, DONE)
    claimed = {"end": "done", "cost": "6.0", "lower_bound": "5.5", "solutions": 2, "bounds": 2}
    assert (row.status, row.claimed, row.cost, row.lower_bound) == ("ok", claimed, 6.0, 5.5)
    assert [(x.time_s, x.cost) for x in row.incumbents] == [(0.0, 10.0), (1.0, 6.0)]
    assert row.solution == GOOD


def test_a_claim_for_an_infeasible_solution_is_no_misclaim(chain):
    row = judged(chain, text("solution", CYCLIC, 0.5), text("solution", GOOD, 6), DONE)
    assert (row.status, row.claimed["cost"]) == ("ok", "0.5")


def test_integer_claims_on_integer_costs_are_exact(integral):
    large = 10**18
    assert judged(integral, text("solution", [0, 0], large), DONE).status == "ok"
    assert judged(integral, text("solution", [1, 0], large), DONE).status == "misclaim"
    assert (
        judged(integral, text("solution", [1, 0], float(large)), DONE).status == "ok"
    )  # equal within the resolution of a float
    assert judged(integral, text("solution", [1, 0], large * (1 - 1e-8)), DONE).status == "misclaim"


@pytest.mark.parametrize(
    ("claim", "cost", "lower"),
    [
        *((5, 6, True), (6, 6, False), (7, 6, False), (-1, 0, True)),
        *((6 - 1e-9, 6.0, False), (5.9999, 6.0, True), (0.0, 0.0, False), (6.1, 6.0, False)),
    ],
)
def test_undercuts(claim, cost, lower):
    assert undercuts(claim, cost) is lower


def test_a_program_says_by_its_exit_status_how_it_ended(chain):
    good = judged(chain, text("solution", GOOD), command=("a.out",))
    assert (good.status, good.claimed["end"]) == ("ok", "done")
    bad = judged(chain, text("solution", GOOD), command=("a.out",), stop="crash", reason="ended with exit status 1")
    assert (bad.status, bad.claimed["end"], bad.cost) == ("crash", "nothing", 6.0)
    assert judged(chain, command=("a.out",)).status == "none"


def test_a_malformed_line_of_a_program_spares_its_good_ones(chain):
    lines = text("solution", GOOD), text("bound", "low")
    row = judged(chain, *lines, command=("a.out",), log="read\n")
    assert (row.status, row.reason, row.cost) == ("ok", "", 6.0)
    assert "(referee: the message at" in row.log
    assert judged(chain, *lines[1:], command=("a.out",)).status == "error"
    assert judged(chain, *lines, DONE).status == "error"
    row = judged(chain, lines[0], command=("a.out",), fault="printed a line of more than 4 MiB")
    assert (row.status, row.log) == ("ok", "(referee: printed a line of more than 4 MiB)\n")


def test_the_backend_and_its_enforcement_are_kept(chain):
    facts = {"backend": "posix", "enforced": {"wall": "hard"}, "host": "far", "wall_s": 1.5, "cpu_s": 1.0}
    row = judged(chain, DONE, **facts)
    assert {name: getattr(row, name) for name in facts} == facts
    limits = (row.cpu_limit_s, row.processes, row.output_mib)
    assert limits == (LIMITS.cpu_limit_s, LIMITS.processes, LIMITS.output_mib)


@pytest.mark.parametrize(
    ("payloads", "begun_s", "added"),
    [
        ([], None, " before the solver began; the limit includes starting and reading the instance"),
        ([], 8.04, "; starting and reading the instance took 8.0 s of it"),
        ([], 4.0, ""),
        ([text("solution", GOOD)], 8.04, ""),
        ([text("bound", 1)], 8.04, ""),
    ],
)
def test_a_time_out_without_a_result_tells_what_it_had_no_time_for(chain, payloads, begun_s, added):
    row = judged(chain, *payloads, stop="timeout", reason="late", begun_s=begun_s)
    assert row.reason == f"late{added}"


def test_a_message_longer_than_any_solution_is_not_even_read(chain, monkeypatch):
    monkeypatch.setattr(judging, "decode", lambda payload: pytest.fail("read"))
    row = judged(chain, b"[" + b" " * (LONGEST + 4 * 256) + b"]", stop="timeout", reason="late")
    assert row.status == "timeout"
    monkeypatch.undo()
    row = judged(chain, b"[" + b"[]," * 10**6 + b"0]", DONE)
    assert (row.status, row.incumbents) == ("error", ())
    assert row.reason == "sent a message of 3000003 bytes, a solution here has at most 1049600"
    assert judged(chain, text("solution", [[]] * 2000), DONE).reason.startswith("sent a message of 2002 lists")
    many = judged(chain, text("solution", [0] * 70_000), DONE)
    assert many.reason == "sent a message of 70002 values, a solution here has at most 65600"


@pytest.mark.parametrize(
    "solution",
    [
        *("1" * 10**6, "1" * 4300, "-" + "9" * 4000, "1e400", "NaN", "Infinity", '"\\ud800"', '"\\u0000"', "{}"),
        *("[" * 900 + "]" * 900, "[" * 10**5, '{"block": [NaN]}', '{"\\u001b[31m": 1}', "[[],[],[],[]]"),
        *("[true, false, 0, 0]", "[0.0, 0, 0, 0]", "[" + "9" * 4000 + ",0,0,0]", "[-1,0,0,0]", "[null,0,0,0]"),
        *('{"block": [0,0,0,0], "order": [0,0,0,0]}', '{"block": [0,0,0,0], "order": ' + "[" * 800 + "]" * 800 + "}"),
        *('{"block": {"block": []}}', '{"' + "k" * 10**6 + '": 1}', '[{"a": 1}, "x", "0", 1e5]', '""', "null"),
    ],
)
def test_any_solution_becomes_a_row(chain, integral, tmp_path, solution):
    store = Store.open(tmp_path, create=True)
    store.add_campaign("now", [], "0", {})
    for where in (chain, integral):
        for extra in ("", ", 5"):
            row = judged(where, f'["solution", {solution}{extra}]'.encode(), DONE)
            assert row.status in ("infeasible", "error")
            assert row.cost is None
            assert row.verified in ("malformed", "nothing")
            assert len(row.reason) <= judging.SENTENCE
            assert row.reason.isprintable()
            with store.transaction():
                store.add_instance(row.checksum, row.instance, row.track, {}, {})
                store.add_run(1, row)
    store.close()


def test_reasons_of_strangers_are_one_printable_line(chain):
    row = judged(chain, text("declined", "a\nb\tc \x1b[31mred\x00\ud800 " + "x" * 10**6))
    assert row.reason.startswith("a b c \ufffd[31mred\ufffd\ufffd x")
    assert len(row.reason) == 500
    assert sentence("short") == "short"


def test_a_verifier_that_fails_is_a_fault_and_spares_the_rest(chain, monkeypatch):
    true_verify = judging.verify

    def verify(instance, solution):
        if solution == WORSE:
            raise OverflowError("too large")
        return SimpleNamespace(feasible=True, cost=float("nan")) if solution == 1 else true_verify(instance, solution)

    monkeypatch.setattr(judging, "verify", verify)
    row = judged(chain, text("solution", WORSE), text("solution", GOOD), DONE)
    assert (row.status, row.cost) == ("error", 6.0)
    assert "could not verify: OverflowError: too large (test_judgement.py:" in row.reason
    row = judged(chain, text("solution", 1), DONE)
    assert (row.status, row.cost, row.verified) == ("error", None, "malformed")
    assert row.reason.endswith("its cost is beyond the range of float64")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400)
keys = st.sampled_from(["block", "order", "x"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner))
solutions = st.lists(st.integers(-1, 2), min_size=2, max_size=2) | st.lists(st.integers(-1, 3), min_size=4, max_size=4)
messages = (
    st.tuples(st.sampled_from([*KINDS, "cheat"]), values | solutions)
    | st.tuples(st.just("solution"), solutions, scalars)
    | st.tuples(st.just("bound"), scalars)
    | values
)


@settings(max_examples=some_of(150), deadline=None)
@given(
    st.lists(messages.map(lambda message: json.dumps(message).encode()) | st.binary(max_size=30), max_size=6),
    st.sampled_from(["exit", "timeout", "crash", "lost"]),
    st.sampled_from(["solver", "bound"]),
)
def test_any_messages_become_a_true_row(chain, integral, payloads, stop, kind):
    for where in (chain, integral):
        tells_the_truth(where, payloads, stop, kind)


def tells_the_truth(where: Problem, payloads: list[bytes], stop: str, kind: str) -> None:
    """Check the invariants of the row of any run."""
    row = judged(where, *payloads, kind=kind, stop=stop, reason="" if stop == "exit" else "why")
    assert (row.status == "ok") == (row.reason == "")
    assert row.reason.isprintable()
    assert row.verified in ("feasible", "infeasible", "malformed", "nothing")
    assert (row.cost is not None) == (row.verified == "feasible")
    assert row.cost == min((x.cost for x in row.incumbents if x.feasible), default=None)
    assert all(abs(bound.value) <= sys.float_info.max for bound in row.bounds)
    if row.solution is not None:
        assert row.solution in [json.loads(p)[1] for p in payloads if p.startswith(b'["solution"')]
    json.dumps(row.claimed, allow_nan=False)
    if row.status == "ok":
        assert row.stop == "exit"
        assert row.cost is not None or (kind == "bound" and row.lower_bound is not None)


@pytest.mark.parametrize(
    ("bound", "proof", "proven", "counts", "reason"),
    [
        (4.5, {"kind": "work"}, 5, 5, ""),
        (5.5, {"kind": "work"}, 5, 5.5, "claims 5.5, but proves only 5"),
        (
            3.5,
            {"kind": "hope"},
            None,
            3.5,
            "proof.kind: expected one of solutions, stages, windows, work, found 'hope'",
        ),
    ],
)
def test_a_certificate_is_checked_and_the_log_says_what_it_lacks(chain, bound, proof, proven, counts, reason):
    sent = [text("bound", bound), text("certificate", bound, proof), DONE]
    found = judged(chain, *sent, certify=True)
    assert found.certificate is not None
    assert (found.lower_bound, found.certificate.proven, found.certificate.reason) == (counts, proven, reason)
    assert found.log == (f"(referee: the certificate: {reason})\n" if reason else "")
    assert judged(chain, *sent).certificate is None


@pytest.mark.parametrize(("bound", "known"), [(5 * (1 + 9e-10), 5), (5 * (1 + 2e-9), 5 * (1 + 2e-9))])
def test_a_bound_is_what_its_certificate_proves_if_they_differ_by_rounding(chain, bound, known):
    sent = [text("bound", bound), text("certificate", 5, {"kind": "work"}), DONE]
    assert judged(chain, *sent, certify=True).lower_bound == known
    assert judged(chain, *sent).lower_bound == bound


def test_a_certificate_that_cannot_be_read_is_told_in_the_log(chain):
    found = judged(chain, text("certificate", "x", {}), DONE, certify=True)
    assert found.certificate is None
    assert "the certificate does not count" in found.log
