"""Instances tell authors of solvers what the verifier finds: in all tracks, in memory and inside a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from orders import order_of
from referee import ISOLATION

import shardmark as sm
from shardmark import instances
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog
from shardmark.instances.evaluator import Evaluator


@pytest.mark.parametrize(
    ("name", "feasible", "infeasible"),
    [
        ("triangle", np.array([1, 1, 1]), [0, 0, 0]),
        ("chain", {"block": np.array([0, 0, 1, 1, 1])}, [0, 1, 0, 1, 0]),
        ("sandwich-free", (2, 0, 1, 0), np.array([0, 0, 0, 1])),
        ("fork-join", {"device": np.ones(5, int), "priority": np.zeros(5)}, {"device": [0] * 5, "priority": [0] * 5}),
    ],
)
def test_an_instance_tells_what_the_verifier_finds(name, feasible, infeasible):
    instance = sm.load(name)
    good, bad = (json.loads(json.dumps(s, default=np.ndarray.tolist)) for s in (feasible, infeasible))
    assert instance.cost(feasible) == verify(instance, good).cost == sm.check(name, good).cost
    assert type(instance.cost(feasible)) is (int if name == "triangle" else float)
    assert instance.violations(feasible) == ()
    assert instance.violations(infeasible) == verify(instance, bad).violations != ()
    if verify(instance, bad).cost is not None:
        assert instance.cost(infeasible) == verify(instance, bad).cost
    with pytest.raises(InputError, match=r"^cost\(\): "):
        instance.cost([0])
    with pytest.raises(InputError, match="expected plain JSON"):
        instance.violations({1, 2})


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_solver_can_ask_inside_a_run(tmp_path, isolation):
    body = """
        import numpy as np
        assert instance.violations([0, 1]) == ()
        run.bound(instance.cost(np.array([0, 1])))
        instance.cost([0])
    """
    with Supervisor("posix", isolation) as one:
        outcome = one.run(order_of(tmp_path, body))
    (_, bound), (_, error) = outcome.messages
    assert json.loads(bound) == ["bound", 4.0]
    assert json.loads(error)[1].startswith("cost(): solution: expected 2 elements, one per node, found 1")


def test_an_instance_without_a_verifier_says_where_to_get_one(monkeypatch):
    monkeypatch.setattr(Evaluator, "verdict", None)
    instance = instances.load(catalog.locate(catalog.find("chain")))
    with pytest.raises(RuntimeError, match=r"read the instance with shardmark\.load"):
        instance.cost([0, 0, 0, 0, 0])
