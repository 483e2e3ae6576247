"""Random weights and devices of the simulation of Mayer et al. (DIDL 2017, Section 5.1)."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.generate.portable_random import Draws


def weights(draws: Draws, count: int) -> Floats:
    """Operations of vertices, or sizes of tensors: whole numbers from 1 to 100, shape (count,)."""
    return draws.integers(1, 101, count).astype(np.float64)


def speeds(draws: Draws, devices: int) -> Floats:
    """Operations per time: whole numbers from 10 to 100, shape (devices,)."""
    return draws.integers(10, 101, devices).astype(np.float64)


def links(draws: Draws, devices: int) -> Floats:
    """Sizes per time: whole numbers from 10 to 60, symmetric, inf within a device; shape (devices, devices)."""
    between = np.triu(draws.integers(10, 61, devices * devices).reshape(devices, devices), 1)
    bandwidth = (between + between.T).astype(np.float64)
    np.fill_diagonal(bandwidth, np.inf)
    return bandwidth
