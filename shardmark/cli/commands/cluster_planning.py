"""The part of the command ``plan`` that lays a run out over a cluster."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from shardmark.cli import values
from shardmark.cli.options import Answer
from shardmark.cli.output import save_or_show, say, tell
from shardmark.cli.terminal import pairs, printable, table
from shardmark.instances import InputError

if TYPE_CHECKING:
    from shardmark.plans.cluster.layout import ClusterLayout

#: Options of `plan` that a layout does not take.
OTHERS = (
    *("devices", "mesh", "machine", "profile", "times", "times_template", "fuse"),
    *("split", "whole", "sweep", "certificates"),
)

#: Differences of a folder's files from those made again that are listed.
MOST_DIFFERENT = 20


def cluster_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of a run on a cluster."""
    run = sub.add_argument_group("a training or serving run on a cluster")
    run.add_argument("--cluster", metavar="MxD", help="machines and the devices of each, such as 4x8")
    run.add_argument(
        "--batch",
        type=values.positive_int,
        metavar="N",
        help="samples per step; with --train none optional, for what is drawn and exported alone",
    )
    run.add_argument(
        "--microbatch",
        type=values.positive_int,
        metavar="N",
        help="samples in the file's inputs (default: the first dimension of the first input)",
    )
    run.add_argument(
        "--train",
        choices=("adam", "sgd", "none"),
        default="adam",
        help="optimiser, whose state takes memory; none serves the model (default: %(default)s)",
    )
    run.add_argument(
        "--objective",
        choices=("throughput", "latency"),
        help="what is best for --train none: samples per second, or the time of one sample (default: throughput)",
    )
    run.add_argument(
        "--shard",
        choices=("none", "optimizer", "gradients", "weights"),
        default="none",
        help="what the replicas of a stage divide among them, ZeRO 1 to 3 (default: %(default)s)",
    )
    run.add_argument(
        "--max-tensor",
        type=values.positive_int,
        default=8,
        metavar="N",
        help="greatest tensor-parallel degree (default: %(default)s)",
    )


def run_cluster(options: argparse.Namespace) -> Answer:
    """Lay a run out over a cluster, and print the layout."""
    from shardmark.plans.cluster.request import plan_run, reason
    from shardmark.plans.cluster.saving import document, require_export
    from shardmark.plans.exports.jax_layout import require_step
    from shardmark.plans.exports.torch_layout import require_modules, torch_layout
    from shardmark.plans.saving import require_folder

    given = [name for name in OTHERS if getattr(options, name) or (name, options.fuse) == ("fuse", False)]
    if given:
        name = "no-fuse" if given[0] == "fuse" and not options.fuse else given[0].replace("_", "-")
        expected = f"expected no such option with --cluster, {reason(given[0])}"
        raise InputError("plan", f"--{name}", expected)
    require_export(options.export)
    checks = {"torch": require_modules, "specs": require_step}
    if options.output:
        require_folder(options.output)
    found = plan_run(
        options.model,
        cluster=options.cluster,
        batch=options.batch,
        microbatch=options.microbatch,
        train=options.train,
        objective=options.objective,
        shard=options.shard,
        max_tensor=options.max_tensor,
        device=options.device,
        dims=dict(options.dim),
        branches=dict(options.branch),
        timeout=options.timeout,
        cores=options.cores,
        seed=options.seed,
        progress=tell,
        check=checks.get(options.export, lambda path, model: None),
    )
    if options.output:
        save_or_show(
            lambda: found.save(options.output, export=options.export),
            lambda: document(found),
            lambda: _show(found),
            as_json=options.json,
        )
        tell(f"wrote {options.output / 'plan.json'}")
        for module, why in torch_layout(found)["unplaced"].items() if options.export == "torch" else ():
            tell(f"no stage has module {module or 'of the whole model'}: {why}")
    if options.json:
        return 0, document(found)
    _show(found)
    return 0, None


def check_folder(folder: Path, *, as_json: bool) -> Answer:
    """Lay the run of a folder out again, and compare the files; the exit status is 1 if they differ."""
    from shardmark.instances.models.devices import devices
    from shardmark.plans.cluster.views.text import facts
    from shardmark.plans.runs.layout_check import check_layout

    found = check_layout(folder, tell)
    different = [asdict(one) for one in found.differences]
    if as_json:
        return int(not found.equal), {"violations": found.violations, "different": different}
    again, device = facts(found.layout), found.layout.run.device
    figures = "the catalog's" if devices().get(device.name) == device else f"those of plan.json, of {device.source}"
    lines = {
        "layout": "all files are equal to those made again" if found.equal else "DIFFERENT from what is found again",
        **({"violations": list(found.violations)} if found.violations else {}),
        "model": again["model"],
        "cluster": f"{again['cluster']}, whose figures are {figures}",
        **{key: again[key] for key in ("run", "lower bound", "block shardings")},
        "outputs": "nothing was run; with --export torch, examples/pytorch_pipeline.py runs the pipeline and compares",
    }
    more = len(different) - MOST_DIFFERENT
    rest = [f"and {more:,} more"] if more > 0 else []
    tables = [table(different[:MOST_DIFFERENT], dict.fromkeys(different[0], 6)), *rest] if different else []
    say(printable("\n\n".join([*tables, pairs(lines)]), keep="\n") + "\n")
    return int(not found.equal), None


def _show(found: ClusterLayout) -> None:
    """Print the layout for people."""
    from shardmark.plans.cluster.views.text import facts, rows

    about = facts(found)
    stages = rows(found)
    say(printable("\n\n".join([table(stages, dict.fromkeys(stages[0], 1)), pairs(about)]), keep="\n") + "\n")
