"""The command ``plan``: from a model file to a certified split, and files that run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances import InputError
from instances.files.jsonfile import write_json
from shardmark.cli import values
from shardmark.cli.options import Answer, Command
from shardmark.cli.output import say
from shardmark.cli.terminal import pairs, printable, table

if TYPE_CHECKING:
    from shardmark.plans.plan import Plan

VERIFY = "verify"


def plan_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    sub.add_argument("model", type=values.path, metavar="MODEL", help="an ONNX file, StableHLO, or `verify` and a DIR")
    sub.add_argument("folder", nargs="?", type=values.path, metavar="DIR", help="after `verify`: the folder of a plan")
    where = sub.add_argument_group("devices, one of")
    where.add_argument(
        "--devices",
        metavar="N",
        help="a pipeline of so many equal devices; or kinds, as h100:6,epyc-9654:2, to place on",
    )
    where.add_argument("--mesh", metavar="AxB", help="a grid of equal devices: a sharding strategy per operator")
    where.add_argument("--machine", type=values.path, metavar="FILE", help="JSON of unlike devices: a schedule")
    costs = sub.add_argument_group("costs")
    costs.add_argument(
        "--device", default="h100", metavar="NAME", help="kind of the devices, or a TOML file (default: %(default)s)"
    )
    costs.add_argument("--profile", action="store_true", help="measure the operators on this machine by ONNX Runtime")
    costs.add_argument(
        "--dim",
        action="append",
        type=values.size,
        default=[],
        metavar="NAME=N",
        help="a symbolic size; may be repeated",
    )
    costs.add_argument("--fuse", action="store_true", help="join chains of cheap operators first")
    search = sub.add_argument_group("search")
    search.add_argument(
        "--timeout", type=values.seconds, default=30.0, metavar="S", help="seconds to solve and bound (default: 30)"
    )
    search.add_argument("--cores", type=values.positive_int, default=1, metavar="N", help="default: 1")
    search.add_argument("--seed", type=values.natural, default=0, metavar="N", help="default: 0")
    search.add_argument(
        "--sweep", type=values.from_one, metavar="LIST", help="numbers of devices to compare, such as 2,4,8"
    )
    files = sub.add_argument_group("files")
    files.add_argument("--output", type=Path, metavar="DIR", help="folder for plan.json, plan.html and the instance")
    files.add_argument(
        "--export",
        choices=("stages", "annotated", "specs"),
        help="also a model per stage, the model with its stages noted, or (of a mesh) partition specs",
    )


def run_plan(options: argparse.Namespace) -> Answer:
    """Split a model over devices: import it, solve, prove how good the split is, and write files that run.

    `shardmark plan verify DIR` runs the stages that `--export stages` wrote one after another, compares their outputs
    with the whole model's, and their times with the plan's. The exit status is 1 if outputs differ.
    """
    if str(options.model) == VERIFY:
        return _rehearse(options)
    if options.folder:
        raise InputError("plan", str(options.folder), f"expected one model, or `plan {VERIFY} DIR`")
    if options.export and not options.output:
        raise InputError("plan", "--export", "expected --output too, the folder for its files")
    if options.export and (options.export == "specs") != (options.mesh is not None):
        wanted = "specs of a --mesh, stages and annotated of other plans"
        raise InputError("plan", "--export", f"expected {wanted}, found {options.export}")
    if options.sweep and not (options.devices or "").isdecimal():
        raise InputError("plan", "--sweep", "expected --devices N too, equal devices whose number can vary")
    if options.output:
        from shardmark.plans.saving import require_folder

        require_folder(options.output)
    counts = options.sweep or ()
    seconds = options.timeout / (1 + len(counts))
    found = _planned(options, options.devices, seconds)
    sweep = [_swept(count, _planned(options, str(count), seconds)) for count in counts]
    if options.output:
        found.save(options.output)
        _export(found, options)
        _tell(f"wrote {options.output / 'plan.json'}")
    if options.json:
        return 0, _as_json(found, sweep)
    _show(found, sweep)
    return 0, None


def _planned(options: argparse.Namespace, devices: str | None, seconds: float) -> Plan:
    """The plan for the devices of the command line, or for another number of them."""
    from shardmark.plans.plan import plan

    return plan(
        options.model,
        devices=devices,
        device=options.device,
        mesh=options.mesh,
        machine=options.machine,
        dims=dict(options.dim),
        fuse=options.fuse,
        profile=options.profile,
        timeout=seconds,
        cores=options.cores,
        seed=options.seed,
        tell=_tell,
    )


def _swept(count: int, found: Plan) -> dict[str, Any]:
    """The cost, throughput and gap of a plan for another number of devices."""
    return {"devices": count, f"{found.target.what} µs": found.cost, "speed-up": found.speedup, "gap": found.gap}


def _export(found: Plan, options: argparse.Namespace) -> None:
    """Write the files that run."""
    if options.export == "stages":
        from shardmark.plans import stages

        stages.export_stages(
            found.source, found.assignment, options.output / "stages", dims=found.options["dims"], digest=found.digest
        )
    elif options.export == "specs":
        write_json(options.output / "specs.json", found.division.specs)
    elif options.export == "annotated":
        from shardmark.plans import annotated

        annotated.export_annotated(found.source, found.assignment, options.output / "annotated.onnx")


def _rehearse(options: argparse.Namespace) -> Answer:
    """Run the stages of a plan, and compare."""
    from shardmark.plans.rehearsal import verify

    if options.folder is None:
        raise InputError("plan", VERIFY, "expected the folder of a plan after it")
    found = verify(options.folder, tell=_tell)
    return int(not found.equal), found.rows()


def _as_json(found: Plan, sweep: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan for machines: what plan.json has, but for the assignment and the solution, which it would drown in."""
    from shardmark.plans.saving import document

    about = {
        key: value
        for key, value in document(found).items()
        if key not in ("assignment", "solution", "instance", "specs")
    }
    return {**about, "words": found.words, "speedup": found.speedup, "sweep": sweep}


def _show(found: Plan, sweep: list[dict[str, Any]]) -> None:
    """Print the plan for people: the stages, then the answer, then other numbers of devices."""
    from shardmark.plans.page import facts, rows, strategies

    parts = rows(found) if found.division.specs is None else strategies(found)
    text = [table(parts, dict.fromkeys(parts[0], 1)), pairs(facts(found))]
    if sweep:
        text.append(table(sweep, {"speed-up": 2, "gap": 4}))
    say(printable("\n\n".join(text), keep="\n") + "\n")


def _tell(words: str) -> None:
    print(printable(words), file=sys.stderr)


COMMANDS = (Command("plan", run_plan, plan_arguments, "model.onnx --devices 4 --output plan/ --export stages"),)
