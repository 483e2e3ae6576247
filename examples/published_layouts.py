"""Published layouts of training runs, each beside the best one that `shardmark plan --cluster` finds for the same run.

    python examples/published_layouts.py "GPT 145.6" "Llama 3 405B"
    python examples/published_layouts.py            # all of them: some minutes

Prints a table with a row per layout: seconds per step, and utilisation without what is computed again. A published
layout is judged on the costs that the best one is found for. Runs with context parallelism are left out, as plans have
none.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import training_steps

import shardmark
from shardmark.instances.models.devices import device
from shardmark.leaderboard.text import count
from shardmark.plans.cluster.layout import ClusterLayout
from shardmark.plans.cluster.practice import Practice, judged
from shardmark.plans.cluster.problem import AGAIN, KEPT, LEAN

MACHINE = 8  # devices
GIB = 2**30


@dataclass(frozen=True)
class Published:
    """A layout that a paper reports.

    ``network``, ``sizes``  of `training_steps`, sizes for one sample
    ``device``      name in the catalog; ``devices`` of them, 8 in a machine
    ``batch``       samples per step, in microbatches of one
    ``stages``, ``tensor``  stages, and devices of a replica; the replicas are the rest
    ``ends``        layers fewer in the first and in the last stage
    ``recomputed``  True if all layers are computed again
    ``shard``       what the replicas divide, as in ``--shard``
    ``teraflops``   arithmetic per device and second that the paper reports, with what is computed again
    """

    name: str
    network: str
    sizes: Mapping[str, int]
    device: str
    devices: int
    batch: int
    stages: int
    tensor: int
    teraflops: float
    ends: int = 0
    recomputed: bool = True
    shard: str = "none"

    @property
    def replicas(self) -> int:
        """Replicas of each stage."""
        return self.devices // (self.stages * self.tensor)

    @property
    def utilisation(self) -> float:
        """Share of the peak rate that was measured, without recomputed arithmetic."""
        rate = 1e12 * self.teraflops / device(self.device).peak["bfloat16"]
        return rate * flops(self.sizes) / flops(self.sizes, passes=4) if self.recomputed else rate


def flops(sizes: Mapping[str, int], *, passes: int = 3) -> float:
    """Arithmetic of a sample of a GPT: Narayanan et al., SC 2021, Equation 3, which has 4 passes over a layer."""
    h, s, layers, v = (sizes[name] for name in ("width", "sequence", "layers", "vocabulary"))
    return 24 * passes * s * layers * h**2 * (1 + s / (6 * h)) + 6 * s * h * v


def gpt(parameters: str, heads: int, width: int, layers: int) -> tuple[str, str, dict[str, int]]:
    sizes = {"layers": layers, "width": width, "heads": heads, "sequence": 2048, "vocabulary": 51200}
    return f"GPT {parameters}", "transformer", sizes


def megatron(parameters: str, heads: int, width: int, layers: int, *run: int) -> Published:
    """A row of Narayanan et al., SC 2021, Table 1: a model, and its run on A100."""
    tensor, stages, devices, batch, teraflops = run
    return Published(*gpt(parameters, heads, width, layers), "a100-80", devices, batch, stages, tensor, teraflops)


def llama(name: str, width: int, hidden: int, heads: int, layers: int) -> tuple[str, str, dict[str, int]]:
    sizes = {"layers": layers, "width": width, "hidden": hidden, "heads": heads, "groups": 8}
    return name, "llama", {**sizes, "sequence": 8192, "vocabulary": 128256}


LLAMA = ("Llama 3 405B", 16384, 53248, 128, 126)
#: Narayanan et al., SC 2021, Tables 1 and 2, and Llama 3 (2024), Table 4. Weights that FSDP does not reshard after the
#: forward pass are whole, and what is divided is the optimizer's state.
LAYOUTS = [
    megatron("1.7", 24, 2304, 24, 1, 1, 32, 512, 137),
    megatron("3.6", 32, 3072, 30, 2, 1, 64, 512, 138),
    megatron("7.5", 32, 4096, 36, 4, 1, 128, 512, 142),
    megatron("18.4", 48, 6144, 40, 8, 1, 256, 1024, 135),
    megatron("39.1", 64, 8192, 48, 8, 2, 512, 1536, 138),
    megatron("76.1", 80, 10240, 60, 8, 4, 1024, 1792, 140),
    megatron("145.6", 96, 12288, 80, 8, 8, 1536, 2304, 148),
    megatron("310.1", 128, 16384, 96, 8, 16, 1920, 2160, 155),
    megatron("529.6", 128, 20480, 105, 8, 35, 2520, 2520, 163),
    megatron("1008.0", 160, 25600, 128, 8, 64, 3072, 3072, 163),
    *(
        Published(*gpt("174.6", 96, 12288, 96), "a100-80", devices, 1536, 12, 8, teraflops)
        for devices, teraflops in ((384, 153), (768, 149), (1536, 141))
    ),
    *(
        Published(*llama(*LLAMA), "h100", devices, 2048, 16, 8, teraflops, 1, recomputed=False, shard="optimizer")
        for devices, teraflops in ((8192, 430), (16384, 400))
    ),
]


def write(one: Published, folder: Path) -> Path:
    """Write the loss of a layout's model, which a plan completes by its backward pass."""
    path = folder / f"{one.name.replace(' ', '-')}.mlir"
    path.write_bytes(training_steps.lowered(one.network, "none", bits=16, batch=1, **one.sizes))
    return path


def solution(one: Published, found: ClusterLayout) -> dict[str, Any]:
    """A published layout of the blocks that another layout of the run has.

    What stands before the layers belongs to the first stage, and what follows them to the last.
    """
    layers, tensor = one.sizes["layers"], one.tensor
    share = (layers + 2 * one.ends) // one.stages
    first = [block.name for block in found.blocks].index("layer0")
    numbers = (min(max(block - first, 0), layers - 1) for block in range(len(found.blocks)))
    stage = [min((number + one.ends) // share, one.stages - 1) for number in numbers]
    names = []
    for block, menu in enumerate(found.costs):
        base = AGAIN if one.recomputed and first <= block < first + layers else KEPT
        lean = any(costs.lean for costs in menu if costs.degree == tensor)
        names.append(base + LEAN if lean else base)
    degrees = {"data_parallel": [one.replicas] * one.stages, "tensor_parallel": [tensor] * one.stages}
    return {"stage": stage, "configuration": names, **degrees}


def compare(one: Published, path: Path, timeout: float) -> tuple[ClusterLayout, Practice]:
    """The best layout that is found, and the published one on the same costs."""
    cluster = (one.devices // MACHINE, MACHINE)
    more = {"device": one.device, "shard": one.shard, "timeout": timeout}
    found = shardmark.plan(path, cluster=cluster, batch=one.batch, microbatch=1, **more)
    return found, judged(found.instance, found.costs, one.name, solution(one, found))


def row(one: Published, found: ClusterLayout, theirs: Practice) -> list[str]:
    """The cells of a layout in the table."""
    layout = f"{one.stages} x {one.replicas} x {one.tensor}"
    fits = "" if not theirs.lacking else f", {theirs.lacking / GIB:.1f} GiB too few"
    modelled = found.utilisation * found.cost_s / theirs.cost if theirs.cost else None
    again = sum(len(stage.recomputed) for stage in found.stages)
    ours = f"{count(len(found.stages), 'stage')}, {count(again, 'block')} recomputed"
    return [
        one.name,
        f"{one.devices:,}",
        layout + fits,
        "" if theirs.cost is None else f"{theirs.cost:.4g}",
        "" if modelled is None else f"{100 * modelled:.1f}",
        f"{100 * one.utilisation:.1f}",
        "" if modelled is None else f"{modelled / one.utilisation:.2f}",
        ours,
        f"{found.cost_s:.4g}",
        found.gap_text.split(" above")[0].split(":")[0],
    ]


HEADS = ["model", "devices", "published layout", "s", "% of peak", "measured", "factor", "ours", "s", "gap"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare published layouts with the best ones found.")
    parser.add_argument("names", nargs="*", help="beginnings of names, such as 'GPT 39.1' (default: all)")
    parser.add_argument("--devices", type=int, help="only runs on this many devices")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds per layout (default: %(default)s)")
    given = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    for one in LAYOUTS:
        if given.devices in (None, one.devices) and one.name.startswith(tuple(given.names or [""])):
            with tempfile.TemporaryDirectory() as folder:
                compared = compare(one, write(one, Path(folder)), given.timeout)
            print(f"| {' | '.join(row(one, *compared))} |", flush=True)


if __name__ == "__main__":
    main()
