"""The instances that come with the project: their parameters, and the command that generates them.

``python -m shardmark.instances.generate.embedded`` writes those that have changed to ``instances/data``
and prints their checksums for ``instances/catalog.toml``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.instances import track_module
from shardmark.instances.files.jsonfile import encode, read_bytes, sha256, write_json
from shardmark.instances.generate import families
from shardmark.instances.importers.to_scheduling import converted

DATA = Path(__file__).resolve().parent.parent / "data"
PLAIN = 4096  # bytes; smaller files stay uncompressed, for people to read


@dataclass(frozen=True)
class Recipe:
    """An embedded instance: its id in the catalog, and the family, parameters and seed that make it.

    ``scheduled``: the instance is the dataflow made from it, see `shardmark.instances.importers.to_scheduling`.
    """

    id: str
    family: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    scheduled: bool = False

    def build(self) -> Any:
        """The instance; its name is the id."""
        instance = families()[self.family].build(self.seed, **self.parameters)
        return dataclasses.replace(converted(instance) if self.scheduled else instance, name=self.id)

    def document(self) -> dict[str, Any]:
        """The instance in its track's file format."""
        return track_module(self.track).to_document(self.build())

    @property
    def track(self) -> str:
        """The track of the instance."""
        return "scheduling" if self.scheduled else families()[self.family].track


RECIPES = (
    Recipe("chain", "chain"),
    Recipe("overflow", "overflow"),
    Recipe("slicing-trap-8", "slicing-trap"),
    Recipe("erdos-renyi-60", "erdos-renyi", {"nodes": 60, "stages": 4}),
    Recipe("barabasi-albert-120", "barabasi-albert", {"nodes": 120, "stages": 16}),
    Recipe("watts-strogatz-150", "watts-strogatz", {"nodes": 150, "stages": 8, "costs_from": "own"}),
    Recipe("block-model-200", "block-model", {"nodes": 200, "stages": 32}),
    Recipe("resnet-50", "residual-network", {"stages": 16}),
    Recipe("u-net-5", "u-net", {"levels": 5, "stages": 6}),
    Recipe(
        "transformer-12",
        "transformer",
        {"layers": 12, "head_groups": 4, "vocabulary": 8192, "stages": 8, "memory_share": 0.6},
    ),
    Recipe(
        "experts-8",
        "mixture-of-experts",
        {"layers": 8, "experts": 16, "expert_groups": 16, "vocabulary": 8192, "stages": 16, "memory_share": 0.8},
    ),
    Recipe("lstm-50", "sequence-to-sequence", {"layers": 3, "steps": 50, "stages": 12}),
    Recipe("transformer-40", "transformer", {"layers": 40, "head_groups": 16, "vocabulary": 8192, "stages": 64}),
    Recipe("crossing", "crossing"),
    Recipe("sandwich", "sandwich"),
    Recipe("operators-24", "operators", {"nodes": 24, "unsupported": 0.2}),
    Recipe("operators-60", "operators", {"nodes": 60, "accelerators": 4, "unsupported": 0.0}),
    Recipe("training-20", "operators", {"nodes": 20, "training": 1, "unsupported": 0.2}),
    Recipe("training-200", "operators", {"nodes": 200, "training": 1, "accelerators": 8, "cpus": 2}),
    Recipe("fork-join", "fork-join"),
    Recipe("waiting-room", "waiting-room"),
    Recipe("dataflow-12", "random-dataflow", {"nodes": 12, "devices": 3, "reach": 4}),
    Recipe(
        "dataflow-60",
        "random-dataflow",
        {"nodes": 60, "devices": 6, "colocated": 0.4, "restricted": 0.2, "spare": 2.0, "links": "queue"},
    ),
    Recipe(
        "dataflow-200",
        "random-dataflow",
        {"nodes": 200, "devices": 12, "spare": 3.0, "links": "share", "holding": "reserved"},
    ),
    Recipe("lstm-50-flow", "sequence-to-sequence", {"layers": 3, "steps": 50, "stages": 12}, scheduled=True),
    Recipe(
        "training-200-flow", "operators", {"nodes": 200, "training": 1, "accelerators": 8, "cpus": 2}, scheduled=True
    ),
    Recipe("convolutional-training", "convolutional-training", seed=0),
    Recipe("recurrent-training", "recurrent-training", seed=0),
    Recipe("dynamic-recurrent-training", "dynamic-recurrent-training", seed=0),
    Recipe("diamond", "diamond"),
    Recipe("triangle", "triangle"),
    Recipe("menus-150", "menus", {"nodes": 150}),
    Recipe("sharded-transformer-2", "sharded-transformer", {"layers": 2, "tightness": 0.7}),
    Recipe("sharded-transformer-12", "sharded-transformer", {"layers": 12, "training": 1, "crosscut": 1}),
    Recipe("sharded-transformer-128", "sharded-transformer", {"layers": 128, "mesh": "8", "training": 1}),
    Recipe("sharded-experts-6", "sharded-experts", {"layers": 6, "training": 1}),
    Recipe("sharded-resnet-50", "sharded-residual-network", {"mesh": "8", "tightness": 0.6}),
    Recipe("sharded-resnet-152", "sharded-residual-network", {"mesh": "4x4", "depth": 152, "training": 1}),
    Recipe("sharded-u-net-4", "sharded-u-net", {"mesh": "8", "training": 1, "joint": 1}),
    Recipe("trade", "trade"),
    Recipe("hybrid-transformer-12", "hybrid-transformer", {"layers": 12, "devices": 8, "microbatches": 32, "gib": 1.0}),
    Recipe(
        "hybrid-transformer-48",
        "hybrid-transformer",
        {"layers": 48, "width": 2048, "devices": 128, "microbatches": 256, "gib": 6.0, "zero": 1, "machine": 8},
    ),
    Recipe(
        "hybrid-experts-8",
        "hybrid-experts",
        {"layers": 8, "devices": 16, "microbatches": 32, "gib": 2.0, "zero": 3, "machine": 8},
    ),
    Recipe(
        "hybrid-experts-6",
        "hybrid-experts",
        {"layers": 6, "experts": 16, "expert_groups": 16, "operators": 1, "gib": 2.0},
    ),
    Recipe(
        "hybrid-lstm-4",
        "hybrid-sequence-to-sequence",
        {"layers": 1, "steps": 4, "operators": 1, "devices": 8, "microbatches": 16, "gib": 1.0},
    ),
    Recipe("hybrid-lstm-20", "hybrid-sequence-to-sequence", {"operators": 1, "gib": 0.25}),
    Recipe(
        "hybrid-operators-2000",
        "hybrid-transformer",
        {"layers": 105, "head_groups": 2, "width": 2048, "operators": 1, "devices": 64, "gib": 3.0, "jitter": 0.0},
    ),
    Recipe("sharded-lstm-25", "sharded-sequence-to-sequence", {"steps": 25}),
)


def main(folder: Path = DATA) -> None:
    """Write every instance whose file is missing or different, and print the checksums for the catalog."""
    for recipe in RECIPES:
        write(recipe.document(), folder / recipe.track / recipe.id)


def write(document: Mapping[str, Any], place: Path) -> None:
    """Write an instance unless its file is there, and print its checksum for the catalog.

    ``place`` is the file's path without a suffix; the suffix depends on the size.
    """
    content = encode(document)
    path = place.with_name(f"{place.name}.json{'' if len(content) <= PLAIN else '.gz'}")
    if not path.is_file() or read_bytes(path) != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, document)
    print(f"{path.parent.name}/{path.name} sha256:{sha256(content)}")


if __name__ == "__main__":
    main()
