"""Runs a layout of `shardmark plan --cluster --export torch` with PyTorch, and compares it with the whole model.

    python pytorch_pipeline.py export model.onnx
    shardmark plan model.onnx --cluster 1x4 --max-tensor 1 --batch 16 --export torch --output plan
    torchrun --nproc-per-node 4 pytorch_pipeline.py run plan/layout.torch.json

Every process is a device of the layout, on the CPU. `torch.distributed.pipelining` traces the model and splits it at
the layout's split points, so that neither stages nor the tensors between them are written by hand. A step of training
goes through the layout's schedule; then the outputs of the last stage and the gradients of all stages are compared with
the whole model's. The exit status is 1 if they differ.

If stages have different numbers of replicas, microbatches take as many lanes as the least common multiple of these, one
after the other: a program that is to be fast would mix them. Devices of a tensor-parallel replica gather the outputs of
every product, where a fast program exchanges less.

The model is the small transformer below, or any other with ``--model FILE``: a Python file with a function ``build``
like the one here. Needs torch and, to export, onnxscript; no Shardmark.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import Pipe, Schedule1F1B, ScheduleGPipe, SplitPoint, build_stage
from torch.distributed.pipelining._IR import annotate_split_points, aten_pipe_split_alias
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

#: Greatest difference of two results that count as equal, relative to the largest number of the whole model's.
TOLERANCE = 1e-4

VOCABULARY, WIDTH, HEADS, LAYERS, WORDS = 1000, 256, 8, 8, 32


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        query, key = rotated(query, turn), rotated(key, turn)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of Llama: attention and a gated perceptron, each after a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), Attention()
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), turn)
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Transformer(nn.Module):
    """A small decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        channels = WIDTH // HEADS // 2
        turn = torch.outer(torch.arange(words.shape[1]), 10_000.0 ** (-torch.arange(channels) / channels))
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x, turn)
        return self.head(self.norm(x))


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary positions of (batch, head, word, channel) by angles of (word, half of the channels)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * turn.cos() - second * turn.sin(), second * turn.cos() + first * turn.sin()], dim=-1)


def build(samples: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model with the same weights in every process, and a batch of inputs, whose first dimension are the samples."""
    torch.manual_seed(0)
    return Transformer().eval(), (torch.randint(VOCABULARY, (samples, WORDS)),)


def refuse(condition: bool, sentence: str) -> None:
    """End the program with a sentence, which one of its processes prints."""
    if condition:
        raise SystemExit(1 if dist.is_initialized() and dist.get_rank() else f"pytorch_pipeline: {sentence}")


def export(path: Path, samples: int, build: Callable[..., Any]) -> None:
    """Write the model, with as many samples as a microbatch will have."""
    model, inputs = build(samples)
    require_tensors(model(*inputs))
    torch.onnx.export(model, inputs, path, dynamo=True, external_data=False, verbose=False)


def check(layout: Mapping[str, Any], processes: int) -> None:
    """End the program if it cannot run a layout with this many processes."""
    expected = "shardmark/torch-layout/1"
    refuse(layout.get("format") != expected, f"expected a layout.torch.json with the format {expected}")
    stages = layout["stages"]
    degrees = sorted({stage["tensor_parallel"] for stage in stages})
    unlike = " and ".join(map(str, degrees))
    refuse(len(degrees) > 1, f"expected equal tensor-parallel degrees, found {unlike}; plan with --max-tensor 1")
    lanes, found = math.lcm(*(stage["data_parallel"] for stage in stages)), layout["microbatches"]
    refuse(
        found < lanes, f"expected at least {lanes} microbatches for these replicas, found {found}; plan a larger batch"
    )
    needed = sum(stage["data_parallel"] * stage["tensor_parallel"] for stage in stages)
    refuse(processes != needed, f"expected {needed} processes (torchrun --nproc-per-node {needed}), found {processes}")


@dataclass(frozen=True)
class Place:
    """What a process is: a device of a replica of a stage."""

    stage: int
    replica: int
    device: int


def places(layout: Mapping[str, Any]) -> list[Place]:
    """What every process is, by rank."""
    sizes = [(stage["data_parallel"], stage["tensor_parallel"]) for stage in layout["stages"]]
    return [Place(i, r, d) for i, size in enumerate(sizes) for r, d in product(*map(range, size))]


def group_of(everyone: list[Place], key: Callable[[Place], Any]) -> dist.ProcessGroup:
    """The group of the processes with the same key as this one; all processes call this together."""
    keys = list(map(key, everyone))
    ranks = {one: [rank for rank, other in enumerate(keys) if other == one] for one in keys}
    groups = {one: dist.new_group(members) for one, members in ranks.items()}
    return groups[keys[dist.get_rank()]]


def lane_of(everyone: list[Place], replicas: list[int], lane: int) -> dist.ProcessGroup:
    """The group of a process in a lane, which goes through one replica of every stage."""
    return group_of(everyone, lambda one: (lane % replicas[one.stage] == one.replica, one.device))


def traced(model: nn.Module, inputs: tuple[Tensor, ...], layout: Mapping[str, Any]) -> Pipe:
    """The stages of a model, traced with the inputs of a microbatch."""
    annotate_split_points(model, dict.fromkeys(layout["split_points"], SplitPoint.BEGINNING))
    return Pipe.from_tracing(model, inputs, split_policy=with_constants)


def with_constants(model: fx.GraphModule) -> fx.GraphModule:
    """Let every stage compute what depends on no weight, such as rotary angles.

    Pipelining would send them through all stages, and has no backward pass for that.
    """
    graph, weights = model.graph, {name for name, _ in model.named_parameters()}
    starts: list[fx.Node] = [next(iter(graph.nodes))]  # of every stage
    stage_of: dict[fx.Node, int] = {}
    constant = set[fx.Node]()
    for node in graph.nodes:
        stage_of[node] = len(starts) - 1
        if node.target is aten_pipe_split_alias:
            starts.append(node.next)
        if node.op in ("get_attr", "call_function") and node.target not in weights:
            constant.update([node] if constant.issuperset(node.all_input_nodes) else [])

    @cache
    def copied(node: fx.Node, stage: int) -> fx.Node:
        inputs = {source: copied(source, stage) for source in node.all_input_nodes}
        with graph.inserting_before(starts[stage]):
            return graph.node_copy(node, inputs.__getitem__)

    for node, stage in stage_of.items():
        for source in node.all_input_nodes:
            if source in constant and stage_of[source] < stage:
                node.replace_input_with(source, copied(source, stage))
    graph.lint()
    model.recompile()
    return model


def recompute(module: nn.Module) -> None:
    """Let a module keep only its inputs for the backward pass."""
    module.forward = partial(checkpoint, module.forward, use_reentrant=False)  # type: ignore[method-assign]


def loss_of(outputs: Any, target: Tensor) -> Tensor:
    """A loss for any model: replace it by your own."""
    return functional.mse_loss(first(outputs), target)


def first(outputs: Any) -> Tensor:
    """The first tensor of what a model returns."""
    return next(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor))


def require_tensors(outputs: Any) -> None:
    """End the program if a model returns anything but tensors."""
    kinds = {type(leaf).__name__ for leaf in tree_leaves(outputs) if not isinstance(leaf, Tensor | None)}
    more = "; with use_cache=False a model of transformers returns no cache"
    refuse(bool(kinds), f"expected a model that returns tensors, found {', '.join(sorted(kinds))}{more}")


def split_weights(module: nn.Module, devices: DeviceMesh) -> None:
    """Let every device of a replica hold and compute a part of each product's output, which all of them gather."""
    split: dict[nn.Parameter, nn.Parameter] = {}
    for owner in module.modules():
        weights = dict(owner.named_parameters(recurse=False))
        if not any(weight.dim() > 1 for weight in weights.values()):
            continue
        for name, weight in weights.items():
            if weight not in split:
                placement = Shard(0) if weight.dim() and weight.shape[0] % devices.size() == 0 else Replicate()
                split[weight] = nn.Parameter(distribute_tensor(weight.data, devices, [placement]))
            owner.register_parameter(name, split[weight])
        owner.forward = partial(gathered, owner.forward, devices)  # type: ignore[method-assign]


def gathered(forward: Callable[..., Any], devices: DeviceMesh, *inputs: Any) -> Any:
    """Run a module whose weights are split; inputs and outputs are whole."""
    split = tree_map(lambda x: DTensor.from_local(x, devices, [Replicate()]) if isinstance(x, Tensor) else x, inputs)
    with implicit_replication():
        return tree_map(full, forward(*split))


def full(tensor: Any) -> Any:
    """The whole of a tensor that devices have split."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def run(path: Path, build: Callable[..., Any]) -> bool:
    """Run a step of a layout; True if it computes what the whole model does."""
    layout = json.loads(path.read_text())
    dist.init_process_group("gloo")
    check(layout, dist.get_world_size())
    everyone = places(layout)
    me = everyone[dist.get_rank()]
    whole, inputs = build(layout["batch"])
    outputs = whole(*inputs)
    require_tensors(outputs)
    expected = first(outputs)
    targets = torch.rand(expected.shape, generator=torch.Generator().manual_seed(1), dtype=expected.dtype)

    pipe = traced(copy.deepcopy(whole), tuple(tensor[: layout["microbatch"]] for tensor in inputs), layout)
    module = pipe.get_stage_module(me.stage)
    for name in layout["stages"][me.stage]["recomputed"]:
        recompute(module.get_submodule(name))
    devices = DeviceMesh.from_group(group_of(everyone, lambda one: (one.stage, one.replica)), "cpu")
    if devices.size() > 1:
        split_weights(module, devices)
    found = asdict(me)
    for share, result in step(layout, pipe, module, inputs, targets):
        found["outputs"] = max(found.get("outputs", 0.0), difference(first(result), expected[share]))
    if layout["schedule"]:
        loss_of(outputs, targets).backward()
        sum_gradients(module, pipe, everyone)
        found["gradients"] = difference(*gradients(module, whole, layout["microbatches"]))
    return reported(found, layout)


def step(
    layout: Mapping[str, Any], pipe: Pipe, module: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor
) -> Iterator[tuple[slice, Any]]:
    """Run the lanes that this process is in; in the last stage, yield their samples with the outputs."""
    everyone, stages = places(layout), len(layout["stages"])
    me = everyone[dist.get_rank()]
    replicas = [stage["data_parallel"] for stage in layout["stages"]]
    lanes = math.lcm(*replicas)
    for lane in range(lanes):
        group = lane_of(everyone, replicas, lane)
        begin, end = (number * layout["microbatches"] // lanes for number in (lane, lane + 1))
        if lane % replicas[me.stage] != me.replica:
            continue
        share = slice(begin * layout["microbatch"], end * layout["microbatch"])
        mine = tuple(tensor[share] for tensor in inputs) if me.stage == 0 else ()
        stage = build_stage(module, me.stage, pipe.info(), torch.device("cpu"), group)
        if layout["schedule"]:
            kind = Schedule1F1B if end - begin >= stages else ScheduleGPipe  # equal for so few
            schedule = kind(stage, end - begin, loss_fn=loss_of, scale_grads=False)
            result = schedule.step(*mine, target=targets[share] if me.stage == stages - 1 else None)
        else:
            with torch.no_grad():
                result = ScheduleGPipe(stage, end - begin).step(*mine)
        if me.stage == stages - 1:
            yield share, result


def sum_gradients(module: nn.Module, pipe: Pipe, everyone: list[Place]) -> None:
    """Sum gradients over the replicas of a stage, those of a weight that several stages have over all of these."""
    me = everyone[dist.get_rank()]
    groups = dict.fromkeys(dict(module.named_parameters()), group_of(everyone, lambda one: (one.stage, one.device)))
    for tie in pipe.replicated_params:
        names = {int(part.rpartition("_")[2]): name for part, name in tie.items()}
        group = group_of(everyone, partial(lambda names, one: (one.stage in names, one.device), names))
        groups |= {names[me.stage]: group} if me.stage in names else {}
    for name, weight in module.named_parameters():
        if weight.grad is not None:  # the loss depends on it
            if isinstance(weight, DTensor):
                weight.grad = weight.grad.redistribute(weight.device_mesh, weight.placements)
            dist.all_reduce(weight.grad.to_local() if isinstance(weight, DTensor) else weight.grad, group=groups[name])


def gradients(module: nn.Module, whole: nn.Module, microbatches: int) -> tuple[Tensor, Tensor]:
    """The gradients of a stage's weights, and the whole model's, one after the other."""
    theirs = dict(whole.named_parameters(remove_duplicate=False))
    own: dict[nn.Parameter, Tensor] = {}
    for name, weight in module.named_parameters():
        if weight.grad is not None:
            own[theirs[name]] = full(weight.grad) / microbatches
        elif theirs[name].grad is not None:  # wrong, unless the stage has the weight by another name as well
            own.setdefault(theirs[name], torch.zeros_like(theirs[name]))
    pairs = [(gradient.flatten(), one.grad.flatten()) for one, gradient in own.items() if one.grad is not None]
    return torch.cat([torch.zeros(0), *(x for x, _ in pairs)]), torch.cat([torch.zeros(0), *(y for _, y in pairs)])


def difference(found: Tensor, expected: Tensor) -> float:
    """The greatest difference of two tensors, relative to the largest number of the second."""
    return float(((found - expected).abs().max() / expected.abs().max()).detach()) if expected.numel() else 0.0


def reported(found: dict[str, Any], layout: Mapping[str, Any]) -> bool:
    """Print what every process has found; True if all is equal."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    if dist.get_rank() == 0:
        for one in everyone:
            modules = layout["stages"][one["stage"]]["modules"]
            results = ", ".join(f"{name} {one[name]:.1e}" for name in ("outputs", "gradients") if name in one)
            where = ", ".join(f"{name} {one[name]}" for name in ("stage", "replica", "device"))
            print(f"{where}: {modules[0]} ... {modules[-1]}: {results}")
    worst = max(one.get(name, 0.0) for one in everyone for name in ("outputs", "gradients"))
    if dist.get_rank() == 0:
        print(f"{'equal' if worst <= TOLERANCE else 'DIFFERENT'}: relative differences of at most {worst:.1e}")
    dist.destroy_process_group()
    return worst <= TOLERANCE


def builder(path: Path) -> Callable[..., Any]:
    """The function ``build`` of a file."""
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("export", "write the model as ONNX"), ("run", "run a layout; start it with torchrun")):
        sub = commands.add_parser(name, help=what)
        sub.add_argument("file", type=Path, help="model.onnx" if name == "export" else "layout.torch.json")
        sub.add_argument("--model", type=Path, default=__file__, metavar="FILE", help="Python file with `build`")
        if name == "export":
            sub.add_argument("--samples", type=int, default=1, metavar="N", help="samples of a microbatch (default: 1)")
    options = parser.parse_args()
    if options.command == "export":
        export(options.file, options.samples, builder(options.model))
    elif not run(options.file, builder(options.model)):
        sys.exit(1)


if __name__ == "__main__":
    main()
