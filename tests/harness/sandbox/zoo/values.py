"""Solvers whose reports are sound messages with the wrong content."""

import json
import os

import numpy as np
from _reporting import reporting

from shardmark.solvers.registry import bound, solver

#: Values reported as solutions, by the name of the solver.
SOLUTIONS = {
    "wrong-length": [0, 0, 0],
    "too-many": [0] * 10_000,
    "empty": [],
    "out-of-range": [0, 0, 2, 2],
    "negative": [0, 0, -1, -1],
    "huge-integers": [10**4000] * 4,
    "floats": [0.0, 0.0, 1.0, 1.0],
    "minus-zero": [-0.0] * 4,
    "booleans": [False, False, True, True],
    "strings": ["0", "0", "1", "1"],
    "nulls": [None] * 4,
    "nothing": None,
    "text": "0011",
    "number": 6,
    "nested": [[0], [0], [1], [1]],
    "two-dimensional": np.zeros((4, 4), dtype=int),
    "wrong-keys": {"blocks": [0, 0, 1, 1]},
    "more-keys": {"block": [0, 0, 1, 1], "cost": 0},
    "no-order": {"block": [0, 0, 0, 0], "order": [0, 0, 0, 0]},
    "number-keys": {0: 0, 1: 0, 2: 1, 3: 1},
    "cyclic": [0, 1, 0, 1],
    "nan": [float("nan")] * 4,
    "numpy-nan": np.full(4, np.nan),
    "not-json": object(),
    "bytes": b"\0\0\1\1",
    "set": {0, 1},
    "complex": [0j] * 4,
    "generator": (0 for _ in range(4)),
    "too-many-digits": [10**5000] * 4,
}

#: Values reported as bounds.
BOUNDS = {
    "bound-as-text": "5",
    "bound-as-bool": True,
    "bound-as-list": [5.0],
    "bound-of-nothing": None,
    "infinite-bound": float("inf"),
    "nan-bound": float("nan"),
    "bound-beyond-floats": 10**400,
    "bound-of-numpy": np.float64(5.0),
    "negative-bound": -7.5,
    "exact-bound": 5,
}

#: Costs claimed for a solution that costs 10.
CLAIMS = {
    "claims-the-truth": 10.0,
    "claims-the-truth-in-integers": 10,
    "claims-too-much": 12.0,
    "claims-too-little": 9.0,
    "claims-zero": -0.0,
    "claims-minus-a-lot": -1e300,
    "claims-beyond-floats": -(10**400),
    "claims-in-words": "0",
    "claims-yes": True,
    "claims-nan": float("nan"),
}


@solver(track="pipeline", variants={name: {"value": name} for name in SOLUTIONS})
def reports(instance, run, value):
    """Report one value."""
    run.report(SOLUTIONS[value])


@bound(track="pipeline", variants={name: {"value": name} for name in BOUNDS})
def reports_bound(instance, run, value):
    """Report one bound."""
    run.bound(BOUNDS[value])


@solver(track="pipeline", variants={name: {"value": name} for name in CLAIMS})
def claims(instance, run, value):
    """Claim a cost for a solution."""
    run.report([0] * instance.nodes, CLAIMS[value])


@reporting
def liar(instance, run):
    """Claim a lower bound above its own solution."""
    run.bound(1e9)


@reporting
def optimist(instance, run):
    """Claim a lower bound above the optimum of 6, but not above its own solution."""
    run.bound(8.0)


@reporting
def first_good_then_bad(instance, run):
    """Report a solution, then an invalid one."""
    run.report([9] * instance.nodes)


class Endless:
    """An iterable without an end."""

    def __iter__(self):
        while True:
            yield 0


class Stuck(np.ndarray):
    """An array that never becomes a list."""

    def tolist(self):
        while True:
            pass


class Lying(np.ndarray):
    """An array that becomes another list each time."""

    def tolist(self):
        return np.random.default_rng(int.from_bytes(os.urandom(4))).integers(0, 2, 10**5).tolist()


class LyingList(list):
    """A list that answers differently through each method."""

    def __iter__(self):
        return iter([0, 0, 1, 1])

    def __getitem__(self, key):
        return 1

    def __len__(self):
        return 4


@solver(track="pipeline")
def endless(instance, run):
    """Report an iterable without an end."""
    run.report(Endless())


@reporting
def stuck(instance, run):
    """Report an array that never becomes a list."""
    run.report(np.zeros(4, dtype=int).view(Stuck))


@solver(track="pipeline")
def lying_array(instance, run):
    """Report an array that becomes whatever it likes."""
    run.report(np.zeros(4, dtype=int).view(Lying))


@solver(track="pipeline")
def lying_list(instance, run):
    """Report a list whose content differs from its answers; the message that arrives counts."""
    run.report(LyingList([7] * instance.nodes))


@solver(track="pipeline")
def patches_json(instance, run):
    """Make every message say what it likes."""
    json.dumps = lambda *_, **__: '["solution",[0,1,0,1]]'
    run.report([0] * instance.nodes)


@solver(track="pipeline")
def changes_the_instance(instance, run):
    """Make its instance cheaper if possible, then solve it."""
    for column in (instance.work, instance.output_size):
        base = column
        while isinstance(base.base, np.ndarray):
            base = base.base
        try:
            base.setflags(write=True)
            column.setflags(write=True)
            column[:] = 0
        except ValueError as error:
            print(error)
    print("work is now", instance.work.sum())
    run.report([0] * instance.nodes)
