"""Explanations of words where pages use them: scores, the modes of rankings, and the sizes of instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmark.leaderboard.text import count, fact, si

#: Words of tables, and what they mean.
TERMS = {
    "Score": "best known cost / cost, from 0 (no solution) to 1",
    "Certified": "lower bound / cost, so at least this share of the optimum is reached",
    "Gap": "cost / lower bound − 1, so the cost is at most this far above the optimum",
    "Proven": "the lower bound meets the cost, so no solution costs less",
}
#: Grades of lower bounds, see `shardmark.harness.results.grades`.
GRADES = {
    "checked": "a certificate of the bound was verified here, in exact arithmetic",
    "agreed": "methods that share no code prove it",
    "claimed": "it rests on the word of one method",
}
#: Parts of the names of rankings (`shardmark.instances.options.Option.mode`), and what they mean.
MODES = {
    "throughput": "the cost is the largest load of a device or stage, the time between two samples of a full pipeline",
    "latency": "the cost is the time that one sample takes",
    "step": "the cost is the time of one batch: filling and draining the pipeline, its slowest stage, synchronisation",
    "contiguous": "no path leaves a device's nodes and returns to them; forward and backward nodes count separately",
    "acyclic": "devices follow one another: data never flows back to an earlier one",
    "free": "a device may hold any set of nodes",
    "schedule gpipe": "all forward passes of a batch come before all backward passes",
    "overlap half": "transfers overlap with computing, over one channel",
    "overlap full": "transfers in, transfers out and computing overlap",
    "clusters": "transfers between two clusters of accelerators are slower",
    "replication": "several devices may share a stage and its samples",
}
#: Sizes of instances, by their key in the summary; the noun gets a plural.
SIZES = {
    "nodes": "node",
    "edges": "edge",
    "strategies": "strategy",
    "configurations": "configuration",
    "stages": "stage",
    "devices": "device",
    "accelerators": "accelerator",
    "cpus": "CPU",
}
#: Limits on memory, by their key in the summary.
MEMORY = {"usage_limit": "memory limit", "memory": "memory", "least_memory": "least memory"}


def terms(*names: str) -> list[tuple[str, str]]:
    """Words with their meanings."""
    return [(name, TERMS[name]) for name in names]


def modes(division: str) -> str:
    """The meanings of the parts of a ranking's name, in one sentence; empty for a ranking without modes."""
    meanings = [MODES[part] for part in division.split(", ") if part in MODES]
    return "; ".join(meanings)


def sizes(summary: Mapping[str, Any]) -> list[str]:
    """The size of an instance in a few words each: nodes, edges, devices, memory."""
    found = []
    for key, noun in SIZES.items():
        if isinstance(number := summary.get(key), int):
            found.append(f"{number:,} strategies" if noun == "strategy" and number != 1 else count(number, noun))
    for key, words in MEMORY.items():
        if isinstance(amount := summary.get(key), int | float):
            found.append(f"{words} {si(amount) if abs(amount) >= 1e6 else fact(amount)}")
    return found
