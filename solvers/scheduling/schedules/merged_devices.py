"""Relaxation to fewer devices: merged devices have the greatest speed and the best links of their members.

A merged device runs any number of vertices at the same time, so every schedule remains possible.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance


def merged(instance: Instance, most: int) -> Instance:
    """The instance with unlimited memory on at most ``most`` devices; no schedule takes longer there.

    Three quarters of these are the fastest devices, unchanged; the others are groups of devices of similar speed. The
    diagonal of the bandwidths has the greatest bandwidth within a group, infinite for a single device.
    """
    k = instance.devices
    free = replace(instance, memory=np.full(k, np.inf), links="independent", holding="waiting")
    if k <= most:
        return free
    order, first, label = np.argsort(-instance.speed, kind="stable"), _first(k, most), _labels(instance, most)
    return replace(
        free,
        choices=tuple(np.unique(label[choice]) for choice in instance.choices),
        device_names=tuple(map(str, range(most))),
        speed=instance.speed[order[first]],
        bandwidth=_merged_links(instance.bandwidth[np.ix_(order, order)], first),
        memory=np.full(most, np.inf),
    )


def _first(k: int, most: int) -> Ints:
    """The first device of each of ``most`` groups, shape (most,), among k devices sorted by speed, fastest first."""
    rest = max(1, most // 4)
    alone = most - rest
    return np.r_[np.arange(alone), alone + np.arange(rest) * (k - alone) // rest]


def _labels(instance: Instance, most: int) -> Ints:
    """The group of each device, shape (k,), for at most ``most`` groups."""
    k = instance.devices
    label = np.arange(k)
    if k > most:
        place = np.searchsorted(_first(k, most), np.arange(k), side="right") - 1
        label[np.argsort(-instance.speed, kind="stable")] = place
    return label


def _merged_links(bandwidth: Floats, first: Ints) -> Floats:
    """The greatest bandwidth between two groups and within each, which is infinite for a single device.

    ``first`` is the first device of each group. A group without internal links gets a slow one, as a tensor can stay on
    one of its devices.
    """
    np.fill_diagonal(bandwidth, 0.0)
    slowest = bandwidth.min(initial=1.0, where=bandwidth > 0)
    links: Floats = np.maximum.reduceat(np.maximum.reduceat(bandwidth, first, axis=0), first, axis=1)
    np.fill_diagonal(links, np.where(np.diagonal(links) > 0, np.diagonal(links), slowest))
    single = np.diff(np.append(first, len(bandwidth))) == 1
    links[single, single] = np.inf
    return links


def least_of_merged(known: Floats, instance: Instance, most: int) -> Floats:
    """The least bound in each of ``most`` groups, shape (n, most), from bounds for at least as many smaller groups."""
    before, after = _labels(instance, known.shape[1]), _labels(instance, most)
    columns = [known[:, np.unique(before[after == d])].min(axis=1) for d in range(most)]
    return np.stack(columns, axis=1)
