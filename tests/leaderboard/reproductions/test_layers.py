"""Instances by layers: who is put together, what stays as it is, and that no placement costs anything else."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.placement import Instance, parse, to_document
from shardmark.leaderboard.reproductions.placement._layers import by_layers, without_cyclic_layers
from tests.support.placements import draw_instance


def chain(colours: list[int | None], layers: list[int | None], edges: list[tuple[int, int]] | None = None) -> Instance:
    """Nodes in a row, or with other edges; None for no colour and no layer."""
    nodes = [
        {
            "id": i,
            "supportedOnFpga": True,
            "cpuLatency": 2,
            "fpgaLatency": 1,
            "isBackwardNode": False,
            **({} if colour is None else {"colorClass": colour}),
            **({} if layer is None else {"layerId": layer}),
        }
        for i, (colour, layer) in enumerate(zip(colours, layers, strict=True))
    ]
    ends = edges or [(i, i + 1) for i in range(len(nodes) - 1)]
    listed = [{"sourceId": u, "destId": v, "cost": 1} for u, v in ends]
    document: dict[str, Any] = {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 9, "nodes": nodes, "edges": listed}
    return parse(document, "chain")


def test_layers_and_colours_that_share_nodes_become_one_class() -> None:
    found = by_layers(chain([5, None, 5, None, 7, None], [None, 1, 1, 2, 2, None]))
    assert found.unit.tolist() == [0, 0, 0, 1, 1, 2]
    assert found.colour.tolist() == [0, 0, 0, 1, 1, -1]
    assert found.layer.tolist() == [-1, 0, 0, 1, 1, -1]


def test_a_file_without_layers_stays_as_it_is() -> None:
    before = chain([5, None, 5], [None, None, None])
    assert to_document(by_layers(before)) == to_document(before)


@pytest.mark.parametrize("seed", range(20))
def test_placements_by_layers_cost_the_same_on_operators(seed: int) -> None:
    draw = random.Random(seed)
    operators = draw_instance(draw, contiguity="free")
    layer = np.array([draw.choice([-1, 0, 1, 2]) for _ in range(operators.nodes)])
    operators = replace(operators, layer=layer)
    try:
        layers = by_layers(operators)
    except InputError:  # no devices can hold them
        return
    devices = operators.accelerators + operators.cpus
    of_unit = [draw.randrange(devices) for _ in range(operators.nodes)]
    device = [of_unit[u] for u in layers.unit.tolist()]
    assert verify(layers, device).cost == verify(operators, device).cost
    assert verify(layers, device).feasible == verify(operators, device).feasible
    for label in (operators.colour, operators.layer):
        together = {c: {int(u) for u in layers.unit[label == c]} for c in set(label[label >= 0].tolist())}
        assert all(len(units) == 1 for units in together.values())


def test_a_class_that_is_needed_early_and_late_is_taken_out_of_its_layer() -> None:
    weights_of_both_ends = [(0, 1), (1, 2), (2, 3), (3, 4), (5, 4)]
    before = chain([5, None, None, None, None, 5], [1, 0, 0, 1, 1, 1], weights_of_both_ends)
    assert by_layers(before).unit.tolist() == [0, 1, 1, 0, 0, 0]
    found = without_cyclic_layers(before)
    assert found.layer.tolist() == [-1, 0, 0, 1, 1, -1]
    assert by_layers(found).unit.tolist() == [0, 1, 1, 2, 2, 0]


def test_what_operators_are_on_a_cycle_by_themselves_takes_no_layer_away() -> None:
    before = chain([5, None, 5, None], [0, 1, 0, 1])
    assert without_cyclic_layers(before).layer.tolist() == [0, 1, 0, 1]


def test_layers_in_a_row_stay() -> None:
    before = chain([None, 3, 3, None], [0, 0, 1, 1])
    assert without_cyclic_layers(before).layer.tolist() == before.layer.tolist()
    apart = chain([None, 3, None, 4], [0, 0, 1, 1])
    assert without_cyclic_layers(apart).layer.tolist() == [0, 0, 1, 1]
