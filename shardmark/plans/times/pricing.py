"""Costs of operators from measured times, and from the roofline, scaled to these, for operators without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shardmark.instances import InputError
from shardmark.instances.files.columns import Floats
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs, roofline
from shardmark.leaderboard.text import count
from shardmark.plans.joining import Joined
from shardmark.plans.times.matching import Matched, match
from shardmark.plans.times.measured import TABLE
from shardmark.plans.times.reader import read_times

Flags = NDArray[np.bool_]
MOST_NAMES = 3  # of operators without a time that are shown


def measured_costs(path: Path, model: Model, joined: Joined, device: Device) -> Costs:
    """Costs of the chains of ``joined``, which are made of operators of ``model``.

    A chain takes the sum of its members' times, if the operator that it is named after has one. The time of a module is
    divided among its chains like their roofline. Other chains cost the roofline times the measured over the roofline
    time of all that were measured: of matrix products and convolutions, or of everything else, or of both if one of
    these has no measured operator. Views without a time take none. Totals of kernels scale the roofline alike.
    """
    measured = read_times(path)
    estimate = roofline(joined.chains, device).seconds
    matched = match(measured, model, str(path))
    if not (measured.rows or measured.kernels or matched.operators or matched.modules or measured.origin == TABLE):
        expected = "expected ranges named as operators or modules of the model, or its kinds of operators with shapes"
        raise InputError(path, "", f"{expected} (record_shapes=True), found none of them")
    seconds = _known(matched, model, joined, estimate)
    products = np.array([operator.multiply_adds > 0 for operator in joined.chains.operators], dtype=bool)
    lacking = np.isnan(seconds)
    factors = [_factor(seconds, estimate, products == kind, measured.kernels.get(kind)) for kind in (False, True)]
    scaled = np.where(products, factors[True], factors[False]) * estimate
    costs = np.where(lacking, scaled, seconds)
    missing = lacking & (estimate > 0)
    return Costs(costs, f"{path.name} ({measured.origin}); {_about(joined.chains, missing, products, factors, device)}")


def _known(matched: Matched, model: Model, joined: Joined, estimate: Floats) -> Floats:
    """Measured seconds of chains, NaN if unknown."""
    seconds = np.full(len(joined.chains.operators), np.nan)
    leader = [
        next(index for index in members if model.operators[index].name == chain.name)
        for chain, members in zip(joined.chains.operators, joined.links, strict=True)
    ]
    chain_of = {index: chain for chain, index in enumerate(leader)}
    for chain, members in enumerate(joined.links):
        if leader[chain] in matched.operators:
            seconds[chain] = sum(matched.operators.get(index, 0.0) for index in members)
    for members, total in matched.modules:
        chains = [chain_of[index] for index in members if index in chain_of]
        shares = estimate[chains]
        whole = shares.sum()
        seconds[chains] = total * shares / whole if whole else total / max(len(chains), 1)
    return seconds


def _factor(seconds: Floats, estimate: Floats, kind: Flags, kernels: float | None) -> float:
    """Measured over roofline time of the operators of one kind; of all if none of this kind was measured; else 1."""
    if kernels is not None and estimate[kind].sum():
        return float(kernels / estimate[kind].sum())
    for among in (kind, np.ones_like(kind)):
        known = among & ~np.isnan(seconds)
        if estimate[known].sum() > 0 and seconds[known].sum() > 0:
            return float(seconds[known].sum() / estimate[known].sum())
    return 1.0


def _about(model: Model, missing: Flags, products: Flags, factors: Sequence[float], device: Device) -> str:
    """A sentence on the operators without a time."""
    lacking = np.flatnonzero(missing)
    timed = sum(not operator.view for operator in model.operators)
    if not len(lacking):
        return f"every operator has a time ({timed})"
    names = ", ".join(shortened(model.operators[index].name) for index in lacking[:MOST_NAMES])
    more = f" and {len(lacking) - MOST_NAMES} more" if len(lacking) > MOST_NAMES else ""
    words = {True: "products", False: "others"}
    kinds = sorted({bool(products[index]) for index in lacking}, reverse=True)
    scales = " and ".join(f"{factors[kind]:.3g} ({words[kind]})" for kind in kinds)
    return (
        f"{len(lacking)} of {count(timed, 'operator')} without a time cost the roofline of {device.name} "
        f"times {scales}: {names}{more}"
    )
