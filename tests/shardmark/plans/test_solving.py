"""The methods of a plan: they end once a bound meets the cost, and a false bound counts for nothing."""

from dataclasses import replace

import pytest
from referee import refusal

from shardmark import api
from shardmark.instances.generate import families
from shardmark.plans.solving import Step, certify, words

STEPS = (Step("random-1", "solver", 0.5), Step("exact", "bound", 1.0), Step("annealing", "solver", 1.0))


def chain():
    """Work of 3, 2, 4 and 1 into two stages: the optimum is 6, tensors included."""
    return families()["chain"].build(0)


def certified(instance, steps, timeout=30.0, **options):
    told = []
    return certify(instance, steps, timeout, told.append, cores=1, seed=0, **options), told


def test_methods_run_until_a_bound_meets_the_cost():
    found, told = certified(chain(), STEPS)
    assert found.cost == pytest.approx(found.lower_bound, rel=1e-4)
    assert found.bound_from == "exact"
    begun = [words.split()[1] for words in told if words.startswith("running")]
    assert begun == ["random-1", "exact"], "annealing had nothing left to do"


def test_the_solution_of_a_bound_method_counts_too():
    found, _ = certified(chain(), [Step("exact", "bound", 1.0)])
    assert api.check(chain(), found.solution).cost == found.cost


def test_a_bound_is_checked_if_its_certificate_is_asked_for():
    steps = [Step("reweighted", "bound", 1.0)]
    assert certified(chain(), steps)[0].grade == "claimed"
    assert certified(chain(), steps, certificates=True)[0].grade == "checked"


def test_without_any_split_the_methods_say_why():
    instance = families()["operators"].build(0, accelerators=1, room=0.01, cpus=1)
    words = refusal(certify, instance, [Step("one-accelerator", "solver", 1.0)], 5.0, print, cores=1, seed=0)
    assert "no split was found (one-accelerator: " in words


def test_methods_that_only_lacked_time_ask_for_more(monkeypatch):
    real = api.solve

    def slow(instance, method, **options):
        return replace(real(instance, method, **options), cost=None, status="timeout", reason="killed at the limit")

    monkeypatch.setattr(api, "solve", slow)
    words = refusal(certify, chain(), [Step("random-1", "solver", 1.0)], 5.0, print, cores=1, seed=0)
    assert "expected a timeout of more than 5 s; no split was found (random-1: killed at the limit)" in words


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (0.0, "proven optimal"),
        (None, "no lower bound above 0 is known"),
        (0.2741, "at most 28 % above the best split there is"),
        (0.28, "at most 28 % above the best split there is"),
        (1.2801, "at most 129 % above the best split there is"),
        (1.5e-5, "at most 0.0015 % above the best split there is"),
        (1e-8, "at most 0.001 % above the best split there is"),
    ],
)
def test_a_gap_is_rounded_up_as_it_is_a_claim(gap, expected):
    assert words(gap) == expected


def test_a_bound_that_a_verified_cost_contradicts_counts_for_nothing(monkeypatch):
    def lie(instance, method, **options):
        return replace(api.solve(instance, "random-1", **options), method=method, lower_bound=99.0, bound_from=method)

    monkeypatch.setattr(api, "bound", lie)
    found, told = certified(chain(), [Step("random-100", "solver", 0.5), Step("exact", "bound", 0.5)])
    assert found.bound_from == "simple"
    assert any("exact claims the bound 99.0, which the verified cost" in words for words in told)
