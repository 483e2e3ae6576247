"""Measures the operators of a few networks with PyTorch's profiler, and compares them with the roofline.

    python examples/operator_times.py --device h100 --output times/

Every network is exported to ONNX and profiled, on the GPU if there is one. The folder gets the ONNX model and what
`shardmark plan --times` reads: a Chrome trace with shapes, one with a range per module, and the table of averages. The
comparison has a row per kind of operator: measured and roofline time, and their ratio. It needs torch and onnx.
`--small` makes networks for a test on a CPU; `--device` names the device whose roofline it is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from shardmark.instances.models.devices import device
from shardmark.instances.models.reader import read_model
from shardmark.instances.models.roofline import roofline
from shardmark.plans.joining import Joined
from shardmark.plans.times.pricing import measured_costs

WARM_UP = 5
ABOUT_THE_MACHINE = ("host_name", "trace_id", "traceName")  # left out of traces


class Block(nn.Module):
    """A transformer layer with pre-normalisation (Vaswani et al., NeurIPS 2017)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.project = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        query, key, value = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(2, 3), -1)
        x = x + self.project((weights @ value).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Layers on top of an embedding."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def convolutions(channels: int, depth: int) -> nn.Module:
    """Convolutions with rectification and pooling, and a classifier (Simonyan and Zisserman, ICLR 2015)."""
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()]
    for level in range(depth):
        wide = channels << level
        layers += [nn.Conv2d(wide, 2 * wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels << depth, 10))


def networks(*, small: bool) -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Networks with their inputs."""
    if small:
        return {
            "transformer": (Transformer(2, 16, 2, 40), torch.zeros(2, 8, dtype=torch.int64)),
            "convolutions": (convolutions(4, 2), torch.randn(2, 3, 16, 16)),
        }
    return {
        "transformer": (Transformer(12, 1024, 16, 32000), torch.zeros(8, 512, dtype=torch.int64)),
        "convolutions": (convolutions(64, 4), torch.randn(32, 3, 224, 224)),
        "perceptron": (
            nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(4096, 4096), nn.ReLU()))),
            torch.randn(4096, 4096),
        ),
    }


def ranges(network: nn.Module) -> None:
    """Put a range around every module without submodules, under its name."""
    for name, module in network.named_modules():
        if not list(module.children()):
            open_ranges: list[Any] = []

            def begin(_m: Any, _inputs: Any, name: str = name, open_ranges: list[Any] = open_ranges) -> None:
                open_ranges.append(record_function(name))
                open_ranges[-1].__enter__()

            def end(_m: Any, _inputs: Any, _outputs: Any, open_ranges: list[Any] = open_ranges) -> None:
                open_ranges.pop().__exit__(None, None, None)

            module.register_forward_pre_hook(begin)
            module.register_forward_hook(end)


def profiled(network: nn.Module, batch: torch.Tensor, runs: int) -> Any:
    """A profile of some runs, after others to warm up."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with torch.no_grad():
        for _ in range(WARM_UP):
            network(batch)
        with profile(activities=activities, record_shapes=True) as found:
            for _ in range(runs):
                network(batch)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    return found


def save_trace(found: Any, path: Path) -> None:
    """Write a Chrome trace as gzipped JSON, without what names the machine."""
    plain = path.with_suffix("")
    found.export_chrome_trace(str(plain))
    trace = json.loads(plain.read_text())
    plain.unlink()
    for key in ABOUT_THE_MACHINE:
        trace.pop(key, None)
    path.write_bytes(gzip.compress(json.dumps(trace).encode(), mtime=0))


def compare(name: str, folder: Path, kind: str) -> None:
    """Print measured and roofline time of a network's operators, by kind."""
    model, gpu = read_model(folder / f"{name}.onnx"), device(kind)
    costs = measured_costs(folder / f"{name}.trace.json.gz", model, Joined.of(model, fused=False, passes=False), gpu)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for operator, measured, estimate in zip(
        model.operators, costs.seconds.tolist(), roofline(model, gpu).seconds.tolist(), strict=True
    ):
        for key in (operator.kind, "all"):
            sums[key][0] += 1e6 * measured
            sums[key][1] += 1e6 * estimate
            sums[key][2] += 1
    print(f"\n{name}: {costs.origin}\n{'kind':24}{'operators':>10}{'measured µs':>14}{'roofline µs':>14}{'ratio':>9}")
    for key, (measured, estimate, number) in sorted(sums.items(), key=lambda item: -item[1][0]):
        ratio = f"{measured / estimate:9.2f}" if estimate else f"{'-':>9}"
        print(f"{key:24}{number:10}{measured:14.1f}{estimate:14.1f}{ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure operators with PyTorch and compare them with the roofline.")
    parser.add_argument("--device", default="h100", help="whose roofline, as `shardmark list devices` names it")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--small", action="store_true", help="small networks, for a test")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # the exporter's, about its successor
    torch.manual_seed(0)
    runs = 3 if given.small else 10
    where = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"measured on: {torch.cuda.get_device_name() if where == 'cuda' else 'this CPU'}, torch {torch.__version__}")
    for name, (network, batch) in networks(small=given.small).items():
        stem = given.output / name
        network.eval()
        torch.onnx.export(network, (batch,), str(stem.with_suffix(".onnx")), dynamo=False)
        network, batch = network.to(where), batch.to(where)
        found = profiled(network, batch, runs)
        save_trace(found, given.output / f"{name}.trace.json.gz")
        averages = found.key_averages(group_by_input_shape=True)
        table = averages.table(row_limit=-1, max_name_column_width=1000, max_shapes_column_width=1000)
        (given.output / f"{name}.averages.txt").write_text(table)
        ranges(network)
        save_trace(profiled(network, batch, runs), given.output / f"{name}.modules.trace.json.gz")
        compare(name, given.output, given.device)


if __name__ == "__main__":
    main()
