"""`plan verify` of a layout tells if its files agree with the verifier, and bad files in a sentence."""

from __future__ import annotations

import json

import pytest
from referee import answer, refused, shardmark

from shardmark.instances import InputError
from shardmark.plans.runs.layout_check import check_layout


@pytest.fixture
def folder(layout, tmp_path):
    layout([(3, 1, 2, 1), (2, 0, 1, 2)], batch=8).save(tmp_path / "layout")
    return tmp_path / "layout"


def edited(folder, edit):
    path = folder / "plan.json"
    plan = json.loads(path.read_text())
    edit(plan)
    path.write_text(json.dumps(plan))


def test_a_layout_as_it_was_written_is_the_verifiers(folder):
    found = check_layout(folder)
    assert found.equal
    assert not found.violations
    assert len(found.figures) == 2 + 2 * 5
    result = shardmark("plan", "verify", folder)
    assert result.returncode == 0, result.stderr
    assert "time, degrees and memory of its stages are equal to those of the verifier" in result.stdout


def test_the_latency_of_a_sample_is_that_of_all_stages(layout, tmp_path):
    found = layout([(3, 0, 1, 2), (2, 0, 1, 1)], batch=1, train="none", serving="latency")
    found.save(tmp_path / "served")
    assert check_layout(tmp_path / "served").equal
    assert check_layout(tmp_path / "served").figures[0].planned == pytest.approx(1e3 * found.cost_s)
    result = shardmark("plan", "verify", tmp_path / "served")
    assert result.returncode == 0, result.stderr
    assert "relaxed-dp" not in result.stdout  # which is of another objective


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda plan: plan.update(cost_s=plan["cost_s"] * 1.001), "time in ms"),
        (lambda plan: plan["stages"][1].update(replicas=2), "stage 1: replicas"),
        (lambda plan: plan["stages"][0].update(tensor=2), "stage 0: devices of a replica"),
        (lambda plan: plan["stages"][0].update(microbatch_s=0.2), "stage 0: microbatch ms"),
        (lambda plan: plan["stages"][0].update(sync_s=0.0), "stage 0: gradients ms"),
        (lambda plan: plan["stages"][1].update(memory=2**30), "stage 1: memory GiB"),
        (lambda plan: plan["stages"].pop(), "stages"),
    ],
)
def test_a_figure_that_is_not_the_verifiers_is_named(folder, edit, what):
    edited(folder, edit)
    assert [figure.what for figure in check_layout(folder).figures if not figure.equal] == [what]
    result = shardmark("plan", "verify", folder, "--json")
    assert result.returncode == 1
    assert [figure["what"] for figure in json.loads(result.stdout)["different"]] == [what]


def test_memory_beyond_the_limit_is_a_violation(folder):
    def crowd(plan):
        plan["stages"][0]["held"]["working"] += 1e12
        plan["stages"][0]["memory"] += 1e12

    edited(folder, crowd)
    found = check_layout(folder)
    assert all(figure.equal for figure in found.figures)
    assert found.violations[0].startswith("stage 0: expected at most 80,000,000,000 bytes per device, found 1,0")
    assert not found.equal


def test_a_solution_that_breaks_a_rule_is_told(folder):
    solution = json.loads((folder / "solution.json").read_text())
    solution["data_parallel"] = [8, 1]
    (folder / "solution.json").write_text(json.dumps(solution))
    assert any("expected at most 8" in sentence for sentence in check_layout(folder).violations)


def test_bad_files_are_one_sentence(folder):
    edited(folder, lambda plan: plan["stages"][0].pop("sync_s"))
    with pytest.raises(InputError, match="stages: expected a file written by `shardmark plan`, found an edited one"):
        check_layout(folder)
    (folder / "solution.json").write_text("[]")
    with pytest.raises(InputError, match="expected the solution of a layout, found solution: expected an object"):
        check_layout(folder)
    (folder / "solution.json").unlink()
    with pytest.raises(InputError, match=r"solution\.json"):
        check_layout(folder)


def test_several_folders_are_those_of_plans(folder):
    assert "found a layout, which `plan verify` takes alone" in refused("plan", "verify", folder, folder)


def test_json_has_nothing_that_differs(folder):
    assert answer("plan", "verify", folder) == {"violations": [], "different": []}
