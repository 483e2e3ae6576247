"""Families of generated instances: the same seed and parameters give the same instance on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import describe
from shardmark.instances.generate import (
    configured,
    dataflows,
    hand_solved,
    inception,
    menus,
    model_graphs,
    operators,
    random_graphs,
    sharding,
    training_graphs,
)
from shardmark.instances.generate.portable_random import Draws

__all__ = ["MEANING", "Family", "families"]

Parameter = int | float | str | None
#: Parameters that are shares, probabilities or switches: at most 1.
UNIT = """jitter probability inside between rewiring tightness joint loose training branching colocated restricted tied
kept operators"""
#: Maximum of these and of sizes that are squared: pairs of nodes are drawn, pairs of devices have bandwidths.
MAX_VALUE = {**dict.fromkeys((*UNIT.split(), "unsupported"), 1), "nodes": 20_000, "devices": 2000, "reads": 1000}
#: Maximum of other parameters: sums of their products stay far from the limits of float64.
MAX_INTEGER, MAX_FLOAT = 1_000_000, 10**15


@dataclass(frozen=True)
class Family:
    """A way to make instances of one track from a seed and parameters.

    ``parameters`` maps names to defaults, which determine the types of values; None stands for an optional float.
    ``most`` overrides the maximum of some.
    """

    name: str
    track: str
    parameters: Mapping[str, Parameter]
    function: Callable[..., Any] = field(repr=False)
    source: str = ""
    most: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def description(self) -> str:
        """First paragraph of the function's docstring."""
        return " ".join((self.function.__doc__ or "").split("\n\n")[0].split())

    def build(self, seed: int, **given: Parameter) -> Any:
        """Build the instance of a seed >= 0; InputError for an unknown parameter or an invalid value."""
        place = f"generate {self.name}"
        if seed < 0:
            raise InputError(place, "seed", f"expected an integer, at least 0, found {seed}")
        for key, value in given.items():
            if key not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InputError(place, key, f"expected only the parameters {known}")
            expected = _misfit(value, self.parameters[key], {**MAX_VALUE, **self.most}.get(key))
            if expected:
                raise InputError(place, key, f"{expected}, found {describe(value)}")
        instance = self.function(Draws(seed), **{**self.parameters, **given})
        return dataclasses.replace(instance, name=f"{self.name}-{seed}")


def _misfit(value: Parameter, default: Parameter, most: int | None) -> str:
    """Describe the valid values, up to ``most``; empty if ``value`` is valid."""
    if isinstance(default, str):
        return "" if isinstance(value, str) else "expected a text"
    if isinstance(default, int):
        least, most = min(default, 1), most or MAX_INTEGER
        return "" if type(value) is int and least <= value <= most else f"expected an integer from {least} to {most}"
    most = most or MAX_FLOAT
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = value is default or (number and 0 <= float(value or 0) <= most)
    return "" if fits else f"expected a number from 0 to {most:g}"


#: Meaning of each parameter; the same name means the same in every family.
MEANING: Mapping[str, str] = {
    "accelerators": "number of accelerators",
    "attached": "number of earlier nodes to which every new node attaches",
    "batch": "number of samples per batch, or per microbatch if there are microbatches",
    "between": "probability of an edge between two groups",
    "blocks": "number of groups of nodes",
    "branching": "0 gives a chain; towards 1, operators read from farther back, and more of them have two inputs",
    "classes": "number of classes that the network distinguishes",
    "cost_spread": "standard deviation of the random fraction added to a node's cost",
    "colocated": "share of nodes that must share a device with two others",
    "costs_from": "add to each node's cost a random fraction of all tensors (all), or of its own (own)",
    "cpus": "number of CPUs",
    "crosscut": "distance between two layers whose strategies must agree; 0: no layers must agree",
    "devices": "number of devices",
    "depth": "layers of the network: 50, 101 or 152",
    "expert_groups": "number of operators into which a layer's experts are grouped",
    "experts": "number of experts per layer",
    "gib": "memory of a device in GiB",
    "head_groups": "number of operators into which a layer's attention heads are grouped",
    "heads": "number of attention heads per layer",
    "holding": "when a tensor occupies its reader's device: waiting or reserved",
    "inside": "probability of an edge inside a group",
    "jitter": "relative spread of measured running times; 0.1: up to 10 % more or less",
    "joint": "1: all tensors that an operator reads are resharded in one collective, an edge of higher arity",
    "kept": "share of its activations that a node stores although it recomputes them",
    "largest_menu": "maximum number of strategies per node",
    "layers": "number of layers (of the encoder and of the decoder, if the network has both)",
    "levels": "number of resolutions on the way down",
    "links": "concurrent tensors on one link: independent, queue or share",
    "longest": "maximum number of time steps of a node",
    "loose": "1: omit the edge that must not be cut (Remark B.3); 0: keep it (Lemma B.2)",
    "machine": "devices per machine; 0: all devices are linked alike",
    "memory_share": "fast memory of a stage / (parameters per stage + largest working set); absent: unlimited",
    "mesh": "devices along each axis of the mesh, such as 8 or 2x4",
    "microbatches": "number of microbatches per batch",
    "neighbours": "number of nearest nodes to which each node of the ring is connected",
    "nodes": "number of nodes",
    "operators": "1: a node per operator; 0: a node per layer",
    "pixels": "height and width of the image",
    "probability": "probability of an edge",
    "reach": "maximum distance to the inputs of a node, in nodes",
    "reads": "maximum number of inputs of a node",
    "restricted": "share of nodes restricted to some of the devices",
    "rewiring": "probability that an edge of the ring leads elsewhere",
    "room": "memory of all accelerators / sizes of all nodes",
    "sequence": "number of tokens per sample",
    "size_mean": "mean size of a tensor",
    "size_spread": "standard deviation of the sizes of tensors",
    "spare": "memory of a device / an equal share of all tensors' sizes; absent: unlimited",
    "stages": "number of stages",
    "steps": "number of words per sentence",
    "tied": "share of nodes that must share a device with their neighbour",
    "tightness": "memory limit: 0 is what a fast assignment needs, 1 what a frugal one needs",
    "training": "1: forward and backward pass; 0: forward pass only",
    "unsupported": "share of nodes that only CPUs can process",
    "vocabulary": "number of different tokens",
    "width": "size of a token's vector, or channels of the first layer",
    "zero": "what replicas share: 0 nothing, 1 the optimizer's state, 3 also gradients and weights (ZeRO)",
}

REGAL = "partial reconstruction of the REGAL graphs, Archer et al. 2024, Appendix C.2"
TRAP = "Archer et al. 2024, Lemma B.2 and Remark B.3"
MTPP = "Archer et al. 2024, Section 2"
ALPA = "cost model after Zheng et al., OSDI 2022"
SIMULATED = "weights after Mayer et al., DIDL 2017, Section 5.1"
TABLE_1 = "after Mayer et al., DIDL 2017, Table 1 and Section 5.1"
DEVICES = "after the operator graphs of Tarnawski et al., NeurIPS 2020"
PIPER = "cost model in the form of Piper's, Tarnawski et al., NeurIPS 2021"
CONTEST = "after the instances of the ASPLOS/EuroSys 2025 contest"

Parameters = dict[str, Parameter]
DRAWN: Parameters = {"costs_from": "all", "size_mean": 50.0, "size_spread": 10.0, "cost_spread": 0.1}
RANDOM: Parameters = {"nodes": 100, "stages": 8, **DRAWN}
PIPELINED: Parameters = {"stages": 8, "memory_share": None, "jitter": 0.1}
SHARDED: Parameters = {"mesh": "2x4", "training": 0, "tightness": 0.5, "crosscut": 0, "joint": 0, "jitter": 0.1}
TOKENS: Parameters = {"layers": 4, "batch": 8, "sequence": 512, "width": 1024, "heads": 16, "vocabulary": 32768}
TRANSFORMER: Parameters = {**TOKENS, "head_groups": 1}
EXPERTS: Parameters = {**TOKENS, "experts": 8, "expert_groups": 8}
RESNET: Parameters = {"batch": 32, "pixels": 224, "width": 64, "depth": 50, "classes": 1000}
U_NET: Parameters = {"batch": 8, "pixels": 256, "width": 64, "levels": 4}
LAYERED: Parameters = {"operators": 0, "devices": 32, "microbatches": 64, "gib": 8.0}
LAYERED |= {"kept": 0.1, "zero": 0, "machine": 0, "jitter": 0.1}
MANY = {"devices": 1_000_000}
INCEPTION: Parameters = {"batch": 64, "training": 0, "jitter": 0.1}
LSTM: Parameters = {"layers": 2, "steps": 20, "batch": 64, "width": 1024, "vocabulary": 32768}


@cache
def families() -> Mapping[str, Family]:
    """Every family by its name."""
    every = [*_random(), *_graphs(), *_shards(), *_solved(), *_placed(), *_scheduled(), *_hybrid()]
    return {family.name: family for family in every}


def _random() -> list[Family]:
    linear = {"nodes": 200_000}  # drawn node by node, not pair by pair
    f, ring, groups = random_graphs, {"neighbours": 4, "rewiring": 0.3}, {"blocks": 4, "inside": 0.3, "between": 0.001}
    return [
        Family("erdos-renyi", "pipeline", {**RANDOM, "probability": 0.05}, f.erdos_renyi, REGAL),
        Family("barabasi-albert", "pipeline", {**RANDOM, "attached": 2}, f.barabasi_albert, REGAL, linear),
        Family("watts-strogatz", "pipeline", {**RANDOM, **ring}, f.watts_strogatz, REGAL, linear),
        Family("block-model", "pipeline", {**RANDOM, **groups}, f.block_model, REGAL),
    ]


def _graphs() -> list[Family]:
    f = model_graphs
    return [
        Family("transformer", "pipeline", {**TRANSFORMER, **PIPELINED}, f.transformer, MTPP),
        Family("mixture-of-experts", "pipeline", {**EXPERTS, **PIPELINED}, f.mixture_of_experts, MTPP),
        Family("residual-network", "pipeline", {**RESNET, **PIPELINED}, f.residual_network, MTPP),
        Family("u-net", "pipeline", {**U_NET, **PIPELINED}, f.u_net, MTPP),
        Family("sequence-to-sequence", "pipeline", {**LSTM, **PIPELINED}, f.sequence_to_sequence, MTPP),
    ]


def _shards() -> list[Family]:
    f, experts = sharding, {**EXPERTS, "expert_groups": 1}
    menu: Parameters = {"nodes": 200, "largest_menu": 6, "longest": 40, "tightness": 0.5}
    return [
        Family("sharded-transformer", "intraop", {**TRANSFORMER, **SHARDED}, f.transformer, ALPA),
        Family("sharded-experts", "intraop", {**experts, **SHARDED}, f.mixture_of_experts, ALPA),
        Family("sharded-residual-network", "intraop", {**RESNET, **SHARDED}, f.residual_network, ALPA),
        Family("sharded-u-net", "intraop", {**U_NET, **SHARDED}, f.u_net, ALPA),
        Family("sharded-sequence-to-sequence", "intraop", {**LSTM, **SHARDED}, f.sequence_to_sequence, ALPA),
        Family("menus", "intraop", menu, menus.menus, CONTEST),
    ]


def _solved() -> list[Family]:
    f = hand_solved
    return [
        Family("chain", "pipeline", {}, f.chain),
        Family("overflow", "pipeline", {}, f.overflow),
        Family("slicing-trap", "pipeline", {"stages": 8, "loose": 0}, f.slicing_trap, TRAP),
        Family("diamond", "intraop", {}, f.diamond),
        Family("triangle", "intraop", {}, f.triangle),
    ]


def _placed() -> list[Family]:
    f = operators
    devices: Parameters = {"accelerators": 3, "cpus": 1, "room": 1.5}
    shape: Parameters = {"nodes": 40, "training": 0, "branching": 0.3, "unsupported": 0.05, "tied": 0.2, "jitter": 0.1}
    return [
        Family("crossing", "placement", {}, f.crossing),
        Family("sandwich", "placement", {}, f.sandwich),
        Family("operators", "placement", {**shape, **devices}, f.operators, DEVICES, {"nodes": 1_000_000}),
        Family("inception", "placement", {**INCEPTION, **devices}, inception.inception, DEVICES),
    ]


def _scheduled() -> list[Family]:
    f, simulated = training_graphs, {"devices": 50}
    shape: Parameters = {"nodes": 100, "devices": 8, "reads": 2, "reach": 12}
    limits: Parameters = {"colocated": 0.2, "restricted": 0.1, "spare": None}
    rules: Parameters = {"links": "independent", "holding": "waiting"}
    return [
        Family("fork-join", "scheduling", {}, dataflows.fork_join),
        Family("waiting-room", "scheduling", {}, dataflows.waiting_room),
        Family(
            "random-dataflow",
            "scheduling",
            {**shape, **limits, **rules},
            dataflows.random_dataflow,
            SIMULATED,
            {"nodes": 1_000_000},
        ),
        Family("convolutional-training", "scheduling", {**simulated}, f.convolutional, TABLE_1),
        Family("recurrent-training", "scheduling", {**simulated}, f.recurrent, TABLE_1),
        Family("dynamic-recurrent-training", "scheduling", {**simulated}, f.dynamic_recurrent, TABLE_1),
    ]


def _hybrid() -> list[Family]:
    f, experts = configured, {**EXPERTS, "expert_groups": 1}
    return [
        Family("trade", "hybrid", {}, f.trade),
        Family("hybrid-transformer", "hybrid", {**TRANSFORMER, **LAYERED}, f.transformer, PIPER, MANY),
        Family("hybrid-experts", "hybrid", {**experts, **LAYERED}, f.mixture_of_experts, PIPER, MANY),
        Family("hybrid-sequence-to-sequence", "hybrid", {**LSTM, **LAYERED}, f.encoder_decoder, PIPER, MANY),
    ]
