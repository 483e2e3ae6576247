"""The site of the documentation: complete, searchable, and without anything from elsewhere."""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import shardmark
from shardmark.cli.arguments import parser
from shardmark.harness.campaign.discover import discover

pytestmark = [
    pytest.mark.gate,
    pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="needs the extra docs"),
]

ROOT = Path(__file__).parents[2]

#: Words that a user searches for, and the page or section that is found first.
TOPICS = {
    "install": "tutorial.html",
    "my split good enough": "tutorial.html",
    "cost formula pipeline": "tracks/pipeline.html",
    "sharding strategy": "tracks/intraop.html",
    "max-load placement": "tracks/placement.html",
    "makespan": "tracks/scheduling.html",
    "contiguity": "tracks/placement.html",
    "allreduce replicas": "tracks/hybrid.html",
    "colocation group": "tracks/scheduling.html",
    "microbatches": "clusters.html",
    "recomputation": "tracks/hybrid.html",
    "usage_limit": "tracks/intraop.html",
    "overflow": "tracks/pipeline.html",
    "tensorflow graph": "tracks/scheduling.html",
    "gpart": "tracks/placement.html",
    "plan onnx": "plans.html",
    "roofline": "plans.html",
    "jax mesh": "mesh-plans-in-jax.html",
    "add a solver": "how-to/add-a-solver.html",
    "run.report": "how-to/add-a-solver.html",
    "external program": "how-to/external-program.html",
    "contest instances": "how-to/public-instances.html",
    "mirror": "how-to/public-instances.html",
    "leaderboard pages": "how-to/read-the-leaderboard.html",
    "highlight": "how-to/read-the-leaderboard.html",
    "propose a solver": "how-to/propose.html",
    "records": "how-to/records.html",
    "miplib": "how-to/records.html",
    "completion bash": "reference/command-line.html",
    "regressions": "how-to/track-regressions.html",
    "polars": "how-to/read-results.html",
    "dask": "how-to/several-machines.html",
    "cite": "how-to/compare-and-cite.html",
    "asv": "how-to/track-regressions.html",
    "suites": "reference/instances.html",
    "cache arrays": "reference/instances.html",
    "exit status": "reference/command-line.html",
    "isolation": "measuring.html",
    "benchexec": "measuring.html",
    "scores": "measuring.html",
    "known limitations": "measuring.html",
    "reproduce": "reproductions.html",
    "findings do not hold": "reproductions.html",
    "contradiction": "glossary.html",
    "glossary": "glossary.html",
    "line protocol": "how-to/external-program.html",
    "gap meaning": "glossary.html",
    "memory limit": "measuring.html",
    "seed": "measuring.html",
    "add instance": "how-to/own-instance.html",
    "my own instance": "how-to/own-instance.html",
    "infeasible": "glossary.html",
    "resume": "how-to/several-machines.html",
    "GPU": "plans.html",
    "split.json": "tutorial.html",
    "compare two solvers": "how-to/compare-and-cite.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built once; MkDocs ends with an error for a broken link, and a warning is one."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_comes_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|iframe|source|video)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*\bhref="([^"]*)"')
    found = {(page.name, a or b) for page in site.rglob("*.html") for a, b in loads.findall(page.read_text())}
    assert found
    assert {(page, target) for page, target in found if re.match(r"(?:[a-z]+:)?//", target)} == set()
    sheets = [path.read_text() for path in site.rglob("*.css")]
    assert [sheet for sheet in sheets if re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet)] == []


def test_every_link_leads_somewhere(site):
    for page in site.rglob("*.html"):
        for target in re.findall(r'\b(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / html.unescape(target)).exists(), f"{page.name}: {target}"


def test_the_pages_of_the_leaderboard_are_those_described():
    described = re.findall(r"`([\w/]+)\.html`", (ROOT / "docs" / "how-to" / "read-the-leaderboard.md").read_text())
    folders = {"data": "data/index", "reproductions": "reproduce/index", "regressions": "regressions/index"}
    named = {"track": "tracks/TRACK", "instance": "instances/TRACK/NAME", "solver": "solvers/TRACK/NAME"}
    templates = {path.stem for path in (ROOT / "leaderboard" / "templates").glob("*.html")}
    shared = {"base", "parts", "findings", "plan", "reproduction", "reproduction_base"}
    assert set(described) == {(folders | named).get(name, name) for name in templates - shared}


def test_a_formula_is_mathml_and_none_is_left_as_latex(site):
    for page in (site / "tracks").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "\\text{" not in re.sub(r'alttext="[^"]*"', "", text)
        assert "<math" in text or page.name == "index.html"


def test_a_formula_at_the_beginning_of_a_line_does_not_end_its_paragraph(site):
    pages = [page.read_text(encoding="utf-8") for page in (site / "methods").glob("*.html")]
    assert not any(re.search(r"^\s*<math", page, re.MULTILINE) for page in pages)
    assert any(re.search(r"^<span><math", page, re.MULTILINE) for page in pages)  # some lines begin so


def commands(of: argparse.ArgumentParser, before: str = "shardmark") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command by its full name."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield f"{before} {name}", sub
                yield from commands(sub, f"{before} {name}")


def test_the_command_line_is_complete(site):
    page = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    parts = dict(re.findall(r'<h\d[^>]* id="(shardmark-[^"]+)"[^>]*>(.*?)(?=<h\d|</article>)', page, re.DOTALL))
    for name, sub in commands(parser()):
        part = parts[name.replace(" ", "-")]
        for action in sub._actions:
            if action.option_strings and action.dest != "help" and action.help != argparse.SUPPRESS:
                assert action.option_strings[-1] in part, f"{name} {action.option_strings}"


def test_every_public_name_is_in_the_reference(site):
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert [name for name in shardmark.__all__ if not re.search(rf'id="[\w.]+\.{name}"', page)] == []


def test_every_solver_and_bound_is_on_the_page_of_its_track(site):
    pages = {track: (site / "tracks" / f"{track}.html").read_text() for track in {info.track for info in discover()}}
    lost = [info.name for info in discover() if f"<code>{info.name}</code>" not in pages[info.track]]
    assert lost == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which runs the site's own search")
def test_every_topic_is_found_first(site):
    command = ["node", str(Path(__file__).parent / "search.js"), str(site), *TOPICS]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    first = {topic: (places or [""])[0].partition("#")[0] for topic, places in found.items()}
    assert first == TOPICS
