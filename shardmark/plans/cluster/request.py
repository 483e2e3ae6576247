"""From the arguments of `shardmark.plan` to a layout of a run on a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import require_regular
from shardmark.instances.models.devices import device as device_of
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import read_model
from shardmark.plans.cluster.layout import ClusterLayout, lay_out
from shardmark.plans.cluster.run import SHARDS, STATE, Run
from shardmark.runs import whole

#: Devices or machines, at most.
MOST = 10**6


def plan_run(
    model: str | os.PathLike[str],
    *,
    cluster: str | Sequence[int],
    batch: int | None,
    microbatch: int | None,
    train: str,
    shard: str,
    max_tensor: int,
    device: str | os.PathLike[str],
    dims: Mapping[str, int] | None,
    branches: Mapping[str, str] | None,
    timeout: float,
    cores: int,
    seed: int,
    progress: Callable[[str], None],
) -> ClusterLayout:
    """Lay a run out over a cluster of machines with equal devices; the arguments are those of `shardmark.plan`.

    Raises InputError for bad input, and if no layout fits.
    """
    machines, devices = _sizes(cluster)
    if batch is None:
        raise InputError("plan", "batch", "expected the samples per step, such as --batch 512 (batch=512 in Python)")
    for name, number in (("batch", batch), ("microbatch", microbatch), ("max_tensor", max_tensor)):
        if number is not None:
            whole(name, number)
    if train not in STATE:
        raise InputError("plan", "train", f"expected one of {', '.join(STATE)}, found {train!r}")
    if shard not in SHARDS:
        raise InputError("plan", "shard", f"expected one of {', '.join(SHARDS)}, found {shard!r}")
    chosen = device_of(device)
    if machines > 1 and chosen.network_bandwidth is None:
        expected = "expected the bandwidth between machines, network_bandwidth in the TOML file of the device"
        raise InputError("plan", "device", f"{expected}; {chosen.name} has none")
    require_regular(model)
    path = Path(os.fsdecode(model))
    read = read_model(path, dims=dims or {}, tell=progress, branches=branches)
    run = Run(
        machines,
        devices,
        chosen,
        chosen.network_bandwidth or chosen.link_bandwidth,
        batch,
        _samples(read) if microbatch is None else microbatch,
        train,
        shard,
        max_tensor,
    )
    return lay_out(path, read, run, timeout=timeout, cores=cores, seed=seed, tell=progress)


def refuse(**others: object) -> None:
    """InputError for an argument of `shardmark.plan` that is not None, but is not about clusters."""
    for name in (name for name, value in others.items() if value is not None):
        expected = "expected none with a cluster, which chooses stages, replicas and the devices of each"
        raise InputError("plan", name, expected)


def require_cluster(batch: object, microbatch: object) -> None:
    """InputError for arguments that only a cluster has."""
    for name, value in (("batch", batch), ("microbatch", microbatch)):
        if value is not None:
            raise InputError(
                "plan", name, "expected a cluster as well, such as --cluster 4x8 (cluster=(4, 8) in Python)"
            )


def _sizes(cluster: str | Sequence[int]) -> tuple[int, int]:
    """Machines, and devices in each; InputError for anything else."""
    text = cluster if isinstance(cluster, str) else "x".join(map(str, cluster))
    match = re.fullmatch("([0-9]{1,7})x([0-9]{1,7})", text)
    if not match or not all(0 < int(size) <= MOST for size in match.groups()):
        expected = "expected machines and the devices of each, such as 4x8"
        more = "; a cluster of unlike machines is a machine file, --machine" if "," in text or ":" in text else ""
        raise InputError("plan", "cluster", f"{expected}, found {text!r}{more}")
    return int(match[1]), int(match[2])


def _samples(model: Model) -> int:
    """Samples in the file's inputs: the first dimension of the first one that has any."""
    inputs = (tensor for tensor in model.tensors if tensor.producer is None and not tensor.parameter and tensor.shape)
    return next((tensor.shape[0] for tensor in inputs), 1)
