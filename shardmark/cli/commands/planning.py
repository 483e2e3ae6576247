"""The command ``plan``: from a model file to a certified split, and files that run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.commands.cluster_planning import check_folder, cluster_arguments, run_cluster
from shardmark.cli.options import Answer, Command
from shardmark.cli.output import save_or_show, say, tell
from shardmark.cli.terminal import pairs, printable, table
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import require_regular

if TYPE_CHECKING:
    from shardmark.plans.plan import Plan
    from shardmark.plans.runs.stage_runs import StageRuns

VERIFY = "verify"
#: Options that `plan verify` does not take.
SEARCH_OPTIONS = (
    *("devices", "mesh", "machine", "device", "profile", "times", "times_template", "dim", "branch", "fuse"),
    *("timeout", "cores", "seed", "certificates", "split", "whole", "sweep", "export"),
)
MOST_NAMES = 5  # of random operators that are shown


def plan_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    sub.add_argument(
        "model", type=values.path, metavar="MODEL", help="an ONNX or StableHLO file, or `verify` followed by DIR"
    )
    sub.add_argument("folders", nargs="*", type=values.path, metavar="DIR", help="after `verify`: folders of plans")
    where = sub.add_argument_group("devices, one of")
    where.add_argument(
        "-n",
        "--devices",
        metavar="N",
        help="number of equal devices in a pipeline; or accelerators and CPUs, such as h100:6,cpu:2",
    )
    where.add_argument("--mesh", metavar="AxB", help="mesh of equal devices that shard every operator, such as 2x4")
    where.add_argument(
        "--machine", type=values.path, metavar="FILE", help="JSON file of unequal devices and links, for a schedule"
    )
    cluster_arguments(sub)
    costs = sub.add_argument_group("costs")
    costs.add_argument(
        "--device",
        default="h100",
        metavar="NAME",
        help="kind of device (see `list devices`), or a TOML file (default: %(default)s)",
    )
    costs.add_argument("--profile", action="store_true", help="measure operators on this machine with ONNX Runtime")
    costs.add_argument(
        "--times",
        type=values.path,
        metavar="FILE",
        help="measured times: a table (CSV, JSON), a trace or averages of PyTorch's profiler, or CSV of `nsys stats`",
    )
    costs.add_argument(
        "--times-template",
        type=values.path,
        metavar="FILE",
        help="write the table of times to fill in, with the roofline beside each line, and stop",
    )
    costs.add_argument(
        "--dim",
        action="append",
        type=values.size,
        default=[],
        metavar="NAME=N",
        help="value of a symbolic size, such as batch=8, or x.0=8 if it has no name; may be repeated",
    )
    costs.add_argument(
        "--branch",
        action="append",
        type=values.branch,
        default=[],
        metavar="NAME=then|else",
        help="branch to plan if its condition depends on inputs (default: the dearer); NAME may be a pattern, such as "
        "'*/cond'; a number for more than two; may be repeated",
    )
    costs.add_argument(
        "--fuse",
        action=argparse.BooleanOptionalAction,
        help="fuse chains of cheap operators first, as compilers do (default: for StableHLO)",
    )
    search = sub.add_argument_group("search")
    words = "seconds for solving and bounding; with --sweep, for each number of devices (default: %(default)g)"
    shared.add_timeout(search, words, 30.0)
    shared.add_cores(search)
    shared.add_seed(search)
    search.add_argument(
        "--certificates",
        action="store_true",
        help="ask for certificates of the bound and check them; takes part of the time",
    )
    search.add_argument(
        "--split",
        type=values.path,
        metavar="FILE",
        help="judge this split over --devices N: an earlier plan.json, or JSON from operator names to stages",
    )
    search.add_argument(
        "--whole",
        action="append",
        default=[],
        metavar="PATTERN",
        help="keep modules whole whose path matches, such as '*.layers.*', over --devices N; may be repeated",
    )
    search.add_argument(
        "--sweep", type=values.from_one, metavar="LIST", help="other numbers of devices to compare, such as 2,8"
    )
    files = sub.add_argument_group("files")
    files.add_argument(
        "-o",
        "--output",
        type=values.folder,
        metavar="DIR",
        help="folder for plan.json, plan.html, instance.json and solution.json",
    )
    files.add_argument(
        "--export",
        choices=("stages", "annotated", "specs", "torch"),
        help="also write an ONNX model per stage, the model annotated with its plan, partition specs (--mesh, "
        "--cluster), or stages for torch.distributed.pipelining (--cluster)",
    )


def run_plan(options: argparse.Namespace) -> Answer:
    """Split a model over devices, or judge your own split: import, solve, prove a gap, export files that run.

    `shardmark plan verify DIR` runs the exported stages in order and compares their outputs with the whole model's, and
    their times with the plan's. The exit status is 1 if outputs differ. With several folders it shows the slowest stage
    of each plan; `--output SITE` also writes them to a page of the site. A layout on a cluster is made again from the
    model, and compared.
    """
    from shardmark.plans.cluster.request import DEFAULTS, require_cluster
    from shardmark.plans.exports.onnx_graph import require_exportable
    from shardmark.plans.saving import require_export, require_folder

    if str(options.model) == VERIFY:
        return _run_stages(options)
    if options.folders:
        raise InputError("plan", str(options.folders[0]), f"expected one model, or `plan {VERIFY} DIR`")
    if options.export and not options.output:
        raise InputError("plan", "--export", "expected --output as well, the folder for its files")
    if options.cluster:
        return run_cluster(options)
    require_cluster(**{name: getattr(options, name) for name in DEFAULTS})
    if options.times_template:
        return _write_template(options)
    if options.sweep and not (options.devices or "").isdecimal():
        raise InputError("plan", "--sweep", "expected --devices N as well, with equal devices")
    if options.sweep and options.split:
        raise InputError("plan", "--sweep", "expected no --split as well: its stages are for one number of devices")
    require_regular(options.model, options.device, options.machine)
    require_export(options.export, options.model, on_mesh=options.mesh is not None)
    if options.export in ("stages", "annotated"):
        require_exportable(options.model, options.export, dict(options.dim), dict(options.branch))
    if options.output:
        require_folder(options.output)
        if options.export == "stages":
            _require_no_others(options.output / "stages")
    found = _planned(options, options.devices)
    if options.output:
        save_or_show(
            lambda: found.save(options.output, export=options.export),
            lambda: _as_json(found, []),
            lambda: _show(found, []),
            as_json=options.json,
        )
        tell(f"wrote {options.output / 'plan.json'}")
    sweep = [_swept(count, options, found) for count in options.sweep or ()]
    if options.json:
        return 0, _as_json(found, sweep)
    _show(found, sweep)
    return 0, None


def _write_template(options: argparse.Namespace) -> Answer:
    """Write the table of times to fill in."""
    from shardmark.plans.times.template import write_template

    path, device = options.times_template, options.device
    dims, branches = dict(options.dim), dict(options.branch)
    rows = write_template(
        path, options.model, device=device, dims=dims, branches=branches, fuse=options.fuse, tell=tell
    )
    tell(f"wrote {path} with {rows} rows; fill in time_us, and pass it as --times {path}")
    return 0, {"times_template": str(path), "rows": rows} if options.json else None


def _require_no_others(stages: Path) -> None:
    """Raise InputError if a folder has anything but earlier stages."""
    from shardmark.plans.exports.stages import MANIFEST

    if os.path.lexists(stages) and not (stages / MANIFEST).exists():
        raise InputError(stages, "", f"expected no such folder, or one with an earlier {MANIFEST}")


def _planned(options: argparse.Namespace, devices: str | None) -> Plan:
    """Return the plan for the devices of the command line, or for another number of devices."""
    from shardmark.plans.plan import plan

    return plan(
        options.model,
        devices=devices,
        device=options.device,
        mesh=options.mesh,
        machine=options.machine,
        dims=dict(options.dim),
        branches=dict(options.branch),
        split=options.split,
        whole=options.whole,
        fuse=options.fuse,
        profile=options.profile,
        times=options.times,
        timeout=options.timeout,
        cores=options.cores,
        seed=options.seed,
        certificates=options.certificates,
        progress=tell,
    )


def _swept(count: int, options: argparse.Namespace, known: Plan) -> dict[str, Any]:
    """Return the cost, speed-up and gap for another number of devices; None if no plan was found."""
    keys = ("devices", "cost_us", "lower_bound_us", "gap", "speedup")
    try:
        found = known if count == int(options.devices) else _planned(options, str(count))
    except InputError as error:  # such as too little memory
        tell(f"{count} devices: {error}")
        return {**dict.fromkeys(keys), "devices": count}
    return dict(zip(keys, (count, found.cost, found.lower_bound, found.gap, found.speedup), strict=True))


def _run_stages(options: argparse.Namespace) -> Answer:
    """Run the stages of a plan, and compare them with the model and the plan; of a layout only figures."""
    from shardmark.plans.runs.layout_check import is_layout
    from shardmark.plans.runs.stage_runs import verify
    from shardmark.plans.saving import load

    if not options.folders:
        raise InputError("plan", VERIFY, "expected the folder of a plan after `verify`")
    _require_no_search_options(options)
    if len(options.folders) > 1 or options.output:
        return _run_stages_of_several(options)
    (folder,) = options.folders
    if is_layout(folder):
        return check_folder(folder, as_json=options.json)
    found = verify(folder, tell=tell)
    if options.json:
        return int(not found.equal), found.rows()
    rows = [
        {
            "stage": run.stage,
            "planned µs": run.predicted_us,
            "measured µs": run.measured_us,
            "measured / planned": run.measured_us / run.predicted_us if run.predicted_us else None,
            "difference": run.difference,
        }
        for run in found.stages
    ]
    same = "the same as the whole model's" if found.equal else "DIFFERENT from the whole model's"
    facts = {
        "outputs": f"{same}; differences are relative to the largest number of an output",
        "planned": f"without transfers; costs: {load(folder)['costs']}",
        "measured": "on one core of this machine; for a plan of another device, compare only stages with each other",
        **_random(found),
    }
    say(printable("\n\n".join([table(rows, {"planned µs": 1, "measured µs": 1}), pairs(facts)]), keep="\n") + "\n")
    return int(not found.equal), None


def _require_no_search_options(options: argparse.Namespace) -> None:
    """InputError for an option that `plan verify` would ignore, as it takes the plan as it was made."""
    parser = argparse.ArgumentParser()
    plan_arguments(parser)
    for name, value in vars(options).items():
        if name in SEARCH_OPTIONS and value != parser.get_default(name):
            expected = f"expected no such option after `plan {VERIFY}`, which needs only the folders of plans"
            raise InputError("plan", f"--{name.replace('_', '-')}", expected)


def _random(found: StageRuns) -> dict[str, str]:
    """How random operators were compared, if there are any."""
    names = [name for run in found.stages for name in run.random]
    if not names:
        return {}
    more = "" if len(names) <= MOST_NAMES else f" and {len(names) - MOST_NAMES} more"
    listed = ", ".join(map(repr, names[:MOST_NAMES]))
    return {"random": f"{listed}{more}; the model gives no seeds, so both runs used the same ones"}


def _run_stages_of_several(options: argparse.Namespace) -> Answer:
    """Run the stages of several plans; with --output also write a page into the site there."""
    from shardmark.leaderboard.reproduction_page import write
    from shardmark.plans.runs.page import report, slowest_stages
    from shardmark.plans.runs.stage_runs import verify
    from shardmark.plans.saving import load

    plans = {folder: load(folder) for folder in options.folders}
    names = [Path(plan["model"]["file"]).stem for plan in plans.values()]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in plans]
    runs = {name: verify(folder, tell=tell) for name, folder in zip(names, plans, strict=True)}
    if options.output:
        page = write(report(runs, (plan["costs"] for plan in plans.values())), options.output)
        tell(f"page: {page}")
    rows, same = slowest_stages(runs), all(run.equal for run in runs.values())
    if options.json:
        return int(not same), rows
    say(f"{table(rows, dict.fromkeys(rows[0], 2))}\n")
    return int(not same), None


def _as_json(found: Plan, sweep: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the plan for --json: the keys of plan.json without the long ones, and some more."""
    from shardmark.plans.saving import document

    about = {
        key: value
        for key, value in document(found).items()
        if key not in ("assignment", "solution", "instance", "specs")
    }
    return {
        **about,
        "gap_text": found.gap_text,
        "better_us": found.better,
        "speedup": found.speedup,
        "sweep": sweep,
    }


def _show(found: Plan, sweep: list[dict[str, Any]]) -> None:
    """Print the plan for people: stages, cost and gap, other numbers of devices."""
    from shardmark.plans.page import facts, rows, strategies

    parts = rows(found) if found.layout.specs is None else strategies(found)
    text = [table(parts, dict.fromkeys(parts[0], 1)), pairs(facts(found))]
    if sweep:
        text.append(_compared(sweep, found.target.what))
    say(printable("\n\n".join(text), keep="\n") + "\n")


def _compared(sweep: list[dict[str, Any]], what: str) -> str:
    """Return a table with a row per number of devices."""
    from shardmark.plans.solving import words

    rows = [
        {
            "devices": row["devices"],
            f"{what} µs": row["cost_us"],
            "speed-up": row["speedup"],
            "proof": "no plan" if row["cost_us"] is None else words(row["gap"]),
        }
        for row in sweep
    ]
    return table(rows, {f"{what} µs": 1, "speed-up": 2})


COMMANDS = (Command("plan", run_plan, plan_arguments, "model.onnx --devices 4 --output plan/ --export stages"),)
