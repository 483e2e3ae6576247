"""Published results: the figures agree with the catalog, with each other, and with the printed tables."""

from __future__ import annotations

from fractions import Fraction

from shardmark.harness.results import published
from shardmark.instances import catalog


def test_every_instance_of_the_contest_has_its_row_and_the_catalog_agrees() -> None:
    entries = [entry for entry in catalog.suite("contest") if entry.id != "contest-example"]
    assert [entry.id for entry in entries] == list(published.instances())
    for entry in entries:
        best, bound = published.best_cost(entry.id), published.lower_bound(entry.id)
        assert best is not None
        assert bound is not None
        assert best.value == entry.published["best_cost"], entry.id
        assert Fraction(bound.value or 0) == Fraction(entry.published["lower_bound"]), entry.id
        assert Fraction(bound.value or 0) <= Fraction(best.value or 0)
        assert len(published.costs(entry.id)) == len(published.authors()) == 10


def test_points_of_the_contest_follow_from_the_costs() -> None:
    told = published.figures()["points"]
    sums = [Fraction(0)] * len(told["printed"])
    for letter in told["instances"]:
        costs = [int(text) for text in published.figures()["costs"][f"contest-{letter}"][: len(sums)]]
        sums = [so_far + Fraction(min(costs), cost) for so_far, cost in zip(sums, costs, strict=True)]
    assert [round(float(points), 2) for points in sums] == told["printed"]
    assert len(told["instances"]) == 20


def test_a_cost_with_an_infinite_entry_is_no_result() -> None:
    assert published.figures()["costs"]["contest-J"][5] == "634000014286643945383"  # not a digit lost
    none = {
        (name, result.author.name)
        for name in published.instances()
        for result in published.costs(name)
        if result.value is None and result.author.role in ("winner", "team")
    }
    assert none == {("contest-W", "1st place"), ("contest-J", "6th place")} | {
        (f"contest-{letter}", "5th place") for letter in "DEFHI"
    }
    assert sum(result.value is None for name in published.instances() for result in published.costs(name)) == 22
    places = {f"{place} place" for place in ("1st", "2nd", "3rd", "4th", "5th", "6th")}
    assert {author.name for author in published.contestants()} == {*places, "XLA"}


def test_others_have_none() -> None:
    assert published.results("contest-example") == []
    assert published.best_cost("diamond") is None
    assert [kind for kind, _ in published.results("contest-A")] == ["cost"] * 10 + ["bound"]


def test_every_instance_of_the_placement_paper_has_its_methods_and_the_catalog_agrees() -> None:
    entries = catalog.suite("placement-throughput") + catalog.suite("placement-latency")
    for entry in entries:
        found = [result for kind, result in published.results(entry.id) if kind == "cost"]
        costs = [Fraction(result.value) for result in found if result.value is not None]
        if not entry.id.endswith("-latency-free"):  # the best of these is found with fewer subgraphs
            assert min(costs) == Fraction(entry.published["best_cost"]), entry.id
    names = {
        tuple(result.author.name for _, result in published.results(f"gnmt-layers-{end}"))
        for end in ("inference", "training-acyclic", "inference-free", "latency", "latency-free")
    }
    assert names == {
        ("DP", "IP (contiguous)", "DPL"),
        ("DP", "DPL"),
        ("IP (non-contiguous)", "local search", "Scotch"),
        ("greedy", "max-load DP", "IP"),
        ("Scotch",),
    }


def test_printed_costs_are_rounded_up_and_splits_beyond_the_memory_have_none() -> None:
    assert [x.value for x in published.placements("bert-3-operators-inference")] == ["27.93", "27.93", "27.93"]
    assert [x.value for x in published.placements("gnmt-layers-latency")] == ["268.51", "244.34", "225.7"]
    assert [x.value for x in published.placements("gnmt-layers-latency-free")] == [None]
    assert published.placements("gnmt-layers") == []
