"""Runs a layout of `shardmark plan --cluster --export torch` with PyTorch, and compares it with the whole model.

    python pytorch_pipeline.py export model.onnx
    shardmark plan model.onnx --cluster 1x4 --max-tensor 1 --batch 16 --export torch --output plan
    torchrun --nproc-per-node 4 pytorch_pipeline.py run plan/layout.torch.json

Every process runs a stage of a replica on the CPU. `torch.distributed.pipelining` traces the model and splits it at the
layout's split points, so that neither stages nor the tensors between them are written by hand. A step of training goes
through the layout's schedule; then the outputs of the last stage and the gradients of all stages are compared with the
whole model's. The exit status is 1 if they differ.

The model is the small transformer below, or any other with ``--model FILE``: a Python file with a function ``build``
like the one here. Needs torch and, to export, onnxscript; no Shardmark.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import Pipe, Schedule1F1B, ScheduleGPipe, SplitPoint, build_stage
from torch.distributed.pipelining._IR import annotate_split_points, aten_pipe_split_alias
from torch.nn import functional
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
    torch.onnx.export(model, inputs, path, dynamo=True, external_data=False, verbose=False)


def grid(layout: Mapping[str, Any], processes: int) -> tuple[int, int]:
    """Replicas and stages of a layout that this program can run."""
    expected = "shardmark/torch-layout/1"
    refuse(layout.get("format") != expected, f"expected a layout.torch.json with the format {expected}")
    stages = layout["stages"]
    replicas = stages[0]["data_parallel"]
    refuse(
        any(stage["tensor_parallel"] > 1 for stage in stages),
        "expected a tensor-parallel degree of 1, as from shardmark plan --max-tensor 1",
    )
    unlike = ", ".join(str(stage["data_parallel"]) for stage in stages)
    refuse(any(stage["data_parallel"] != replicas for stage in stages), f"expected equal replicas, found {unlike}")
    refuse(
        layout["microbatches"] % replicas > 0,
        f"expected microbatches that {replicas} replicas can share equally, found {layout['microbatches']}",
    )
    needed = replicas * len(stages)
    refuse(processes != needed, f"expected {needed} processes (torchrun --nproc-per-node {needed}), found {processes}")
    return replicas, len(stages)


def traced(model: nn.Module, inputs: tuple[Tensor, ...], layout: Mapping[str, Any]) -> Pipe:
    """The stages of a model, traced with the inputs of a microbatch."""
    annotate_split_points(model, dict.fromkeys(layout["split_points"], SplitPoint.BEGINNING))
    pipe = Pipe.from_tracing(model, inputs, split_policy=with_constants)
    tied = " and ".join(name for names in pipe.replicated_params[:1] for name in names.values())
    refuse(bool(tied), f"expected weights of one stage each, found {tied} tied (tie_word_embeddings=False unties them)")
    return pipe


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


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """A loss for any model: replace it by your own."""
    return functional.mse_loss(output, target)


def first(output: Any) -> Tensor:
    """The first tensor of what a model returns."""
    return (
        output if isinstance(output, Tensor) else next(iter(output.values() if hasattr(output, "values") else output))
    )


def run(path: Path, build: Callable[..., Any]) -> bool:
    """Run a step of a layout; True if it computes what the whole model does."""
    layout = json.loads(path.read_text())
    dist.init_process_group("gloo")
    replicas, stages = grid(layout, dist.get_world_size())
    mesh = init_device_mesh("cpu", (replicas, stages), mesh_dim_names=("replica", "stage"))
    replica, number = mesh.get_local_rank("replica"), mesh.get_local_rank("stage")

    whole, inputs = build(layout["batch"])
    expected = first(whole(*inputs))
    targets = torch.rand(expected.shape, generator=torch.Generator().manual_seed(1), dtype=expected.dtype)

    pipe = traced(copy.deepcopy(whole), tuple(tensor[: layout["microbatch"]] for tensor in inputs), layout)
    module = pipe.get_stage_module(number)
    for name in layout["stages"][number]["recomputed"]:
        recompute(module.get_submodule(name))
    training = layout["schedule"] is not None
    stage = build_stage(module, number, pipe.info(), torch.device("cpu"), mesh.get_group("stage"))
    microbatches = layout["microbatches"] // replicas
    share = slice(replica * microbatches * layout["microbatch"], (replica + 1) * microbatches * layout["microbatch"])

    mine = tuple(tensor[share] for tensor in inputs) if number == 0 else ()
    if training:
        schedule = Schedule1F1B(stage, microbatches, loss_fn=loss_of)
        output = schedule.step(*mine, target=targets[share] if number == stages - 1 else None)
        for weight in module.parameters():
            dist.all_reduce(weight.grad, group=mesh.get_group("replica"))
            weight.grad /= replicas
        loss_of(expected, targets).backward()
    else:
        with torch.no_grad():
            output = ScheduleGPipe(stage, microbatches).step(*mine)
    found = {"stage": number, "replica": replica}
    if number == stages - 1:
        found["outputs"] = difference(first(output), expected[share])
    if training:
        theirs = dict(whole.named_parameters())
        found["gradients"] = max(difference(own.grad, theirs[name].grad) for name, own in module.named_parameters())
    return reported(found, layout)


def difference(found: Tensor | None, expected: Tensor | None) -> float:
    """The greatest difference of two tensors, relative to the largest number of the second."""
    assert found is not None
    assert expected is not None
    return float(((found - expected).abs().max() / expected.abs().max()).detach())


def reported(found: dict[str, Any], layout: Mapping[str, Any]) -> bool:
    """Print what every process has found; True if all is equal."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    if dist.get_rank() == 0:
        for one in everyone:
            modules = layout["stages"][one["stage"]]["modules"]
            results = ", ".join(f"{name} {one[name]:.1e}" for name in ("outputs", "gradients") if name in one)
            print(f"stage {one['stage']}, replica {one['replica']}: {modules[0]} ... {modules[-1]}: {results}")
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
    module = importlib.util.module_from_spec(spec)
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
