"""Suite ``models``: well-known networks as instances, made from the files of real models.

``python -m shardmark.instances.models.suite`` writes those that have changed to ``instances/data/models`` and prints
their checksums for ``instances/catalog.toml``. It needs the packages onnx and jaxlib, and a checkout of the project.

Networks for inference are those that the package onnx carries (``backend/test/data/light``: structure and shapes of
the model zoo's files, weights left out), with a batch of `BATCH` instead of one. Training steps are those in
``examples/steps``, lowered from JAX. Times are the roofline's. Some instances have less memory than the device, so that
memory matters.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shardmark.instances import track_module
from shardmark.instances.generate.embedded import DATA, write
from shardmark.instances.models.as_intraop import as_intraop
from shardmark.instances.models.as_pipeline import MICROSECONDS, as_pipeline
from shardmark.instances.models.as_placement import as_placement
from shardmark.instances.models.as_scheduling import as_scheduling
from shardmark.instances.models.devices import Device, device
from shardmark.instances.models.fuse import fuse
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import read_model
from shardmark.instances.models.roofline import roofline

STEPS = Path(__file__).resolve().parents[2] / "examples" / "steps"
FOLDER = "models"  # in DATA
BATCH = 32  # images; with a single one, most operators of these networks take little more than their launch
DEVICE = "h100"
STAGES = 4  # of a pipeline, unless the entry of the catalog says otherwise
ACCELERATORS = 6  # of a placement, which also has one CPU
CPU = "epyc-9654"
MESH = "2x4"
KINDS = (DEVICE,) * 4 + ("a100-80",) * 4  # devices of a schedule
BETWEEN_KINDS = 64e9  # bytes per second between devices of different kinds: PCI Express 5.0 with 16 lanes

#: Files of the package onnx, without "light_" and the suffix, by the names of the networks.
NETWORKS: Mapping[str, str] = {
    "onnx-alexnet": "bvlc_alexnet",
    "onnx-zfnet-512": "zfnet512",
    "onnx-vgg-19": "vgg19",
    "onnx-squeezenet": "squeezenet",
    "onnx-inception-1": "inception_v1",
    "onnx-inception-2": "inception_v2",
    "onnx-resnet-50": "resnet50",
    "onnx-densenet-121": "densenet121",
    "onnx-shufflenet": "shufflenet",
}


@dataclass(frozen=True)
class Recipe:
    """An instance of the suite.

    ``network``  a key of `NETWORKS`, or ``jax-`` and the stem of a file in `STEPS`
    ``track``    of the instance
    ``memory``   bytes per device, if less than the device has
    """

    network: str
    track: str
    memory: float | None = None

    @property
    def id(self) -> str:
        """Name of the instance and of its file."""
        return f"{self.network}-{self.track}"

    @property
    def fused(self) -> bool:
        """True if cheap operators are joined first, as compilers do; stages and devices of an ONNX model get nodes."""
        return self.network not in NETWORKS or self.track in ("scheduling", "intraop")

    def document(self) -> dict[str, Any]:
        """The instance in its track's file format."""
        model = network(self.network)
        makers = {"pipeline": _pipeline, "placement": _placement, "scheduling": _scheduling, "intraop": _intraop}
        gpu = device(DEVICE)
        gpu = dataclasses.replace(gpu, memory=gpu.memory if self.memory is None else self.memory)
        instance = makers[self.track](fuse(model)[0] if self.fused else model, gpu)
        return track_module(self.track).to_document(dataclasses.replace(instance, name=self.id))


RECIPES = (
    *(Recipe(name, "pipeline") for name in NETWORKS),
    Recipe("onnx-inception-1", "placement"),
    Recipe("onnx-inception-2", "placement"),
    Recipe("onnx-densenet-121", "placement"),
    Recipe("onnx-shufflenet", "placement"),
    Recipe("jax-lstm", "placement", memory=180e6),
    Recipe("jax-mixture-of-experts", "placement", memory=2.6e9),
    Recipe("jax-resnet", "placement", memory=2e9),
    Recipe("jax-transformer", "placement", memory=2.5e9),
    Recipe("jax-u-net", "placement", memory=700e6),
    Recipe("onnx-inception-1", "scheduling"),
    Recipe("onnx-inception-2", "scheduling"),
    Recipe("jax-lstm", "scheduling"),
    Recipe("jax-mixture-of-experts", "scheduling"),
    Recipe("jax-resnet", "scheduling"),
    Recipe("jax-transformer", "scheduling"),
    Recipe("jax-u-net", "scheduling"),
    Recipe("onnx-vgg-19", "intraop", memory=250e6),
    Recipe("onnx-inception-2", "intraop", memory=50e6),
    Recipe("onnx-resnet-50", "intraop", memory=70e6),
    Recipe("onnx-densenet-121", "intraop", memory=60e6),
    Recipe("jax-lstm", "intraop", memory=170e6),
    Recipe("jax-mixture-of-experts", "intraop", memory=1.5e9),
    Recipe("jax-resnet", "intraop", memory=1.6e9),
    Recipe("jax-transformer", "intraop", memory=1.65e9),
    Recipe("jax-u-net", "intraop", memory=380e6),
)


@cache
def network(name: str) -> Model:
    """The model of a network: for inference with a batch of `BATCH`, or a training step as it was lowered."""
    if name not in NETWORKS:
        return read_model(STEPS / f"{name.removeprefix('jax-')}.mlir.gz")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(batched(NETWORKS[name], BATCH))
        return read_model(path)


def batched(name: str, batch: int) -> bytes:
    """An ONNX model of `NETWORKS` with another batch than one.

    The new shape of a Reshape that begins with one begins with the size of the data instead, which ONNX writes as 0.
    """
    import onnx
    import onnx.backend.test

    folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    for value in (*graph.input, *graph.output):
        if value.name not in stored:
            value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in graph.node:
        if node.op_type == "Reshape":
            tensor = stored[node.input[1]]
            shape = onnx.numpy_helper.to_array(tensor).tolist()
            if shape[0] == 1:
                tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, [0, *shape[1:]]))
    return bytes(model.SerializeToString())


def _pipeline(model: Model, gpu: Device) -> Any:
    return as_pipeline(model, roofline(model, gpu), gpu, STAGES)


def _placement(model: Model, gpu: Device) -> Any:
    return as_placement(model, roofline(model, gpu), roofline(model, device(CPU)), gpu, ACCELERATORS, cpus=1)


def _scheduling(model: Model, gpu: Device) -> Any:
    """On devices of `KINDS`, as fast as their memories are in comparison to that of ``gpu``, of any size."""
    kinds = [device(kind) for kind in KINDS]
    links = [
        [
            (a.link_bandwidth if a is b else BETWEEN_KINDS) / MICROSECONDS if i != j else None
            for j, b in enumerate(kinds)
        ]
        for i, a in enumerate(kinds)
    ]
    columns = {
        "name": [f"{kind.name}-{i}" for i, kind in enumerate(kinds)],
        "speed": [kind.bandwidth / gpu.bandwidth for kind in kinds],
    }
    return as_scheduling(model, roofline(model, gpu), {"devices": columns, "bandwidth": links})


def _intraop(model: Model, gpu: Device) -> Any:
    return as_intraop(model, gpu, MESH).instance


def main(folder: Path = DATA) -> None:
    """Write every instance whose file is missing or different, and print the checksums for the catalog."""
    for recipe in RECIPES:
        write(recipe.document(), folder / FOLDER / recipe.id)


if __name__ == "__main__":
    main()
