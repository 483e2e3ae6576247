"""Drawings of solutions: what those of splits hold, and which of the stored ones are drawn."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from oracle_placement import draw_solution
from placements import draw_instance

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Incumbent, Record
from shardmark.harness.verify import verify
from shardmark.instances import catalog
from shardmark.leaderboard.drawings.best import MISSING, best
from shardmark.leaderboard.drawings.pictures import Pictures
from shardmark.leaderboard.drawings.split_layout import drawing
from shardmark.leaderboard.report import MAX_NODES, Device, Loads, Schedule, Shares, Split

CROSSING, FORK = (Problem.of(catalog.find(x), catalog.locate(catalog.find(x))) for x in ("crossing", "fork-join"))


def test_loads_and_members_are_those_of_the_verdict() -> None:
    rng = random.Random(5)
    drawn = 0
    while drawn < 150:
        instance = draw_instance(rng)
        solution = draw_solution(rng, instance)
        verdict, picture = verify(instance, solution), drawing(instance, solution, title="t", caption="c")
        if not verdict.feasible:
            continue
        assert picture is not None
        assert (picture.title, picture.caption, list(picture.nodes)) == ("t", "c", list(instance.node_names))
        assert len(picture.edges) == instance.edges
        assert sorted(set(picture.device)) == list(range(len(picture.devices)))
        if isinstance(solution, list):
            assert [picture.devices[d].name.split()[1] for d in picture.device] == list(map(str, solution))
            assert [picture.devices[d].cpu for d in picture.device] == [d >= instance.accelerators for d in solution]
        loads = [float(device.load.removeprefix("load ")) for device in picture.devices if device.load]
        assert len(loads) == (len(picture.devices) if instance.objective == "throughput" else 0)
        if loads and instance.schedule == "pipedream":
            assert max(loads) == pytest.approx(verdict.cost, rel=1e-5)
        drawn += 1


def test_what_is_no_solution_has_no_drawing() -> None:
    assert drawing(CROSSING.instance, [0, 1, 99]) is None
    assert drawing(CROSSING.instance, {"slot": []}) is None


class Shelf:
    """A results database with runs on one instance."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder, create=True)
        self.campaign = self.store.add_campaign("2025-01-01T00:00:00+00:00", [], "0.1.0", {})

    def run(self, solver: str, cost: float | None, solution: Any, problem: Problem = CROSSING, **known: Any) -> None:
        """A run of a solver; ``known`` replaces facts of the instance."""
        facts = {"checksum": problem.checksum, "name": problem.id, "summary": dict(problem.summary)} | known
        published, track = facts.get("published", {}), problem.instance.track
        self.store.add_instance(facts["checksum"], facts["name"], track, facts["summary"], published)
        self.store.add_solver("h", track, solver, "solver", "", "", {})
        when = "2025-01-01T00:00:01+00:00"
        limits = (0, 2.0, 1024.0, 1, when, "exit", "ok", "", cost, None, 1.0, 0.9, 50.0)
        run = Record(
            f"{solver} {facts['checksum']}",
            track,
            facts["name"],
            facts["checksum"],
            solver,
            "solver",
            "h",
            *limits,
        )
        self.store.add_run(self.campaign, replace(run, solution=solution, incumbents=[Incumbent(0.5, True, cost)]))

    def drawn(self) -> dict[str, Pictures]:
        """The drawings; what has none has words for why."""
        found = best(self.store, tables(self.store))
        assert all(
            x.startswith("The best solution found here is not drawn: ") for x in found.values() if type(x) is str
        )
        return {checksum: picture for checksum, picture in found.items() if not isinstance(picture, str)}

    def words(self) -> list[str]:
        """Return the reasons why solutions have no drawing."""
        return [x for x in best(self.store, tables(self.store)).values() if isinstance(x, str)]


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.store.close()


ALONE = [0] * CROSSING.instance.nodes


def test_the_least_cost_is_drawn(shelf: Shelf) -> None:
    shelf.run("worse", 13.0, [1] * CROSSING.instance.nodes)
    shelf.run("better", 12.0, ALONE)
    [(checksum, picture)] = shelf.drawn().items()
    assert checksum == CROSSING.checksum
    loads, split = picture
    assert isinstance(loads, Loads)
    assert isinstance(split, Split)
    assert [(row.name, row.load) for row in loads.rows] == [("accelerator 0", 12.0)]
    assert split.devices == [Device("accelerator 0", "load 12")]
    assert (loads.caption, split.caption) == ("Found by better, cost 12.", "")


def test_an_instance_that_no_run_solved_says_so(shelf: Shelf) -> None:
    shelf.run("nothing", None, None)
    assert shelf.words() == ["The best solution found here is not drawn: no run found one."]


def test_a_schedule_is_drawn_with_the_bound_that_is_known(shelf: Shelf) -> None:
    solution = {"device": [1] * FORK.instance.nodes, "priority": [0] * FORK.instance.nodes}
    cost = verify(FORK.instance, solution).cost
    assert cost is not None
    shelf.run("search", cost, solution, FORK, published={"lower_bound": "10"})
    [(picture,)] = shelf.drawn().values()
    assert isinstance(picture, Schedule)
    assert (max(picture.finish), picture.bound) == (cost, 10.0)
    assert picture.caption.startswith(
        f"Found by search, cost {cost:g}. Its critical chain has {FORK.instance.nodes} ver"
    )


def test_a_bound_beyond_float64_meets_the_cost_exactly(shelf: Shelf, tmp_path: Path) -> None:
    cost = 2**60 + 1
    nodes = {"intervals": [[0, 1]], "usages": [[1]], "costs": [[cost]]}
    file = tmp_path / "large.json"
    file.write_text(json.dumps({"problem": {"name": "x", "nodes": nodes, "edges": {"nodes": [], "costs": []}}}))
    shelf.run("search", cost, [0], Problem(file.name, file), published={"lower_bound": str(cost)})
    shelf.campaign = shelf.store.add_campaign("2025-01-02T00:00:00+00:00", ["-i", str(file)], "0.1.0", {})
    [pictures] = shelf.drawn().values()
    [marks] = [picture.marks for picture in pictures if isinstance(picture, Shares) and picture.marks]
    assert [words for _, words, _ in marks] == [f"cost = lower bound: {cost:,}"]


def test_options_that_a_run_was_given_are_found_again(shelf: Shelf) -> None:
    half = replace(CROSSING, options={"overlap": "half", "contiguity": "free"})
    shelf.run("dp", 12.0, ALONE, half)
    assert list(shelf.drawn()) == [half.checksum]


@pytest.mark.thorough(cases=5)
@pytest.mark.parametrize(
    ("solution", "known"),
    [
        (None, {}),
        (ALONE[1:], {}),
        ([99] * len(ALONE), {}),
        ("nonsense", {}),
        (ALONE, {"checksum": "of another content"}),
        (ALONE, {"name": "mine.json"}),
        (ALONE, {"name": "crossing-acyclic"}),
        (ALONE, {"summary": {}}),
        (ALONE, {"summary": {"nodes": MAX_NODES + 1}}),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_left_out(shelf: Shelf, solution: Any, known: dict[str, Any]) -> None:
    shelf.run("dp", 12.0, solution, **known)
    assert shelf.drawn() == {}
    assert len(shelf.words()) == 1


@pytest.mark.parametrize("option", ["--instance=", "--instance ", "-i ", "-i"])
def test_a_file_that_a_command_names_is_drawn_while_it_holds_what_it_did(
    shelf: Shelf, tmp_path: Path, option: str
) -> None:
    mine = tmp_path / "mine.json"
    mine.write_bytes(FORK.path.read_bytes())
    problem = Problem(mine.name, mine, None, {"links": "queue"})
    solution = {"device": [1] * problem.instance.nodes, "priority": [0] * problem.instance.nodes}
    cost = verify(problem.instance, solution).cost
    assert cost is not None
    shelf.run("search", cost, solution, problem)
    assert shelf.words() == [MISSING]
    command = ["shardmark", "run", *f"{option}{mine}".split(), "--links", "queue"]
    shelf.campaign = shelf.store.add_campaign("2025-01-02T00:00:00+00:00", command, "0.1.0", {})
    assert list(shelf.drawn()) == [problem.checksum]
    mine.write_text(mine.read_text(encoding="utf-8").replace("[", "[ ", 1), encoding="utf-8")
    assert shelf.words() == [MISSING]
    mine.unlink()
    assert shelf.words() == [MISSING]


@pytest.mark.parametrize("nodes", [MAX_NODES + 1, MAX_NODES])
def test_a_graph_of_too_many_nodes_is_not_drawn(shelf: Shelf, nodes: int) -> None:
    solution = {"device": [1] * FORK.instance.nodes, "priority": [0] * FORK.instance.nodes}
    shelf.run("search", 16.0, solution, FORK, summary={**FORK.summary, "nodes": nodes})
    assert len(shelf.drawn()) == (nodes == MAX_NODES)


def test_what_the_disk_garbled_is_left_out(shelf: Shelf) -> None:
    shelf.run("dp", 12.0, ALONE)
    assert len(shelf.drawn()) == 1
    shelf.store.connection.execute("UPDATE runs SET solution = ?", (b"nonsense",))
    assert shelf.drawn() == {}


def test_a_solution_that_breaks_a_rule_is_left_out(shelf: Shelf) -> None:
    free = Problem.of(catalog.find("sandwich-free"), catalog.locate(catalog.find("sandwich-free")))
    strict = replace(free, options={"contiguity": "contiguous"})
    ends = next(
        solution
        for solution in (
            [0 if v in (a, b) else free.instance.accelerators for v in range(free.instance.nodes)]
            for a in range(free.instance.nodes)
            for b in range(a)
        )
        if verify(free.instance, solution).feasible and not verify(strict.instance, solution).feasible
    )
    shelf.run("dp", 12.0, ends, free)
    shelf.run("dp", 12.0, ends, strict)
    assert list(shelf.drawn()) == [free.checksum]
