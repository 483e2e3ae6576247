"""The files that an isolated run can read: all that it needs, and none that could contain an answer."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from orders import order_of
from referee import Lending, backend_here

from shardmark import instances
from shardmark.harness.records.history import FOLDER
from shardmark.harness.results.database import FILE_NAME
from shardmark.harness.sandbox.backends import visible_files

pytestmark = pytest.mark.gate(cases=1)

REPRODUCTIONS = sorted(
    file for room in ("harness", "leaderboard") for file in (visible_files.ROOT / room).rglob("*.toml")
)
CATALOG = Path(instances.__file__).parent / "catalog.toml"


@pytest.fixture(autouse=True)
def _forget():
    """Clear the caches that depend on this process's environment."""
    visible_files._common_paths.cache_clear()
    visible_files._common_answers.cache_clear()
    yield
    visible_files._common_paths.cache_clear()
    visible_files._common_answers.cache_clear()


@pytest.fixture(params=["posix", "benchexec"])
def isolated(request, pool):
    """Each backend that isolates, with supervisors that tests share; skips if the machine does not permit it."""
    backend = backend_here(request.param)
    if "none" in (backend.enforced["network"], backend.enforced["files"]):
        pytest.skip(backend.why or "no isolation")
    return Lending(**vars(backend), pool=pool)


def read_in_isolation(isolated, order, *paths):
    """Return what an isolated solver reads per path: a file's first line, the names in a folder, or ""."""
    body = f"""
        from pathlib import Path
        for path in map(Path, {[str(path) for path in paths]!r}):
            try:
                print(sorted(os.listdir(path)) if path.is_dir() else path.read_text().partition(chr(10))[0])
            except OSError:
                print()
    """
    source = Path(order.file)
    order_of(source.parent, body)
    source.parent.joinpath("body.py").replace(source)
    with isolated.supervisor() as supervisor:
        outcome = supervisor.run(order)
    assert outcome.stop == "exit", outcome.log
    return outcome.log.splitlines()


def test_published_costs_cannot_be_read(isolated, tmp_path):
    assert REPRODUCTIONS
    assert CATALOG.read_text()
    found = read_in_isolation(isolated, order_of(tmp_path), CATALOG, *REPRODUCTIONS, REPRODUCTIONS[0].parent)
    assert found == [""] * (1 + len(REPRODUCTIONS)) + ["[]"]


def test_results_and_sites_cannot_be_read_wherever_they_lie(isolated, tmp_path):
    solvers, elsewhere = tmp_path / "solvers", tmp_path / "elsewhere"
    for folder in (solvers, elsewhere):
        for name, file in (("results-2", FILE_NAME), ("pages", "index.html"), ("data", "weights")):
            (folder / name).mkdir(parents=True)
            (folder / name / file).write_text("12")
    order = order_of(solvers)
    places = [path for folder in (solvers, elsewhere) for path in sorted(folder.glob("*/*"))]
    found = dict(zip(places, read_in_isolation(isolated, order, *places), strict=True))
    assert found == {**dict.fromkeys(places, ""), solvers / "data" / "weights": "12"}


def test_results_and_sites_deep_in_a_solver_s_folder_cannot_be_read(isolated, tmp_path):
    places = [tmp_path / "a" / "b" / "c" / "results" / FILE_NAME, tmp_path / "a" / "site" / "index.html"]
    places.append(places[-1].with_name("runs") / "best.json")
    data = tmp_path / "a" / "b" / "data" / "weights"
    for place in (*places, data):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("12")
    assert read_in_isolation(isolated, order_of(tmp_path), *places, data) == ["", "", "", "12"]


@pytest.mark.parametrize("name", [FILE_NAME, "index.html"])
def test_a_solver_among_results_sees_the_python_files_of_its_folder_and_nothing_else(isolated, tmp_path, name):
    folder = tmp_path / "solvers"
    folder.mkdir()
    for file in (name, "runs.csv", "helper.py"):
        (folder / file).write_text("12")
    places = [folder / file for file in (name, "runs.csv", "helper.py")]
    assert read_in_isolation(isolated, order_of(folder), *places) == ["", "", "12"]


def test_a_folder_is_searched_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(visible_files, "MAX_FOLDERS", 4)
    for folder in ("a/b/results", "c", "d"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("a/b/results", "d"):
        (tmp_path / folder / FILE_NAME).touch()
    assert list(visible_files._answers(tmp_path)) == [tmp_path / "d"]


def test_pages_of_packages_are_no_answers(tmp_path, monkeypatch):
    for folder in ("python/package", "site"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "index.html").touch()
    monkeypatch.setattr(visible_files, "_python_folders", lambda: {str(tmp_path / "python")})
    assert list(visible_files._answers(tmp_path)) == [tmp_path / "site"]


@pytest.mark.gate
def test_results_of_its_campaign_are_empty_under_any_name(isolated, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "old.sqlite").write_text("12")
    order = order_of(tmp_path)
    assert read_in_isolation(isolated, order, tmp_path / "mine") == ["['old.sqlite']"]
    assert read_in_isolation(isolated, replace(order, hidden=str(tmp_path / "mine")), tmp_path / "mine") == ["[]"]
    assert read_in_isolation(isolated, replace(order, hidden=str(tmp_path / "none")), tmp_path / "none") == [""]


def test_in_the_folder_of_its_instance_a_run_sees_the_instance_only(isolated, tmp_path):
    (tmp_path / "solvers").mkdir()
    order = order_of(tmp_path / "solvers")
    instance = Path(shutil.copy(order.instance, tmp_path / "two.json"))
    (tmp_path / "solution.json").write_text("[0, 1]")
    found = read_in_isolation(
        isolated, replace(order, instance=str(instance)), instance, tmp_path / "solution.json", tmp_path
    )
    assert found[0].startswith('{"format"')
    assert found[1:] == ["", "['solvers', 'two.json']"]


def test_a_solver_in_a_home_sees_the_python_files_of_its_folder_and_nothing_else(isolated, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "helper.py").write_text("HELP = 1\n")
    (tmp_path / "costs.csv").write_text("12")
    (tmp_path / "old").mkdir()
    found = read_in_isolation(
        isolated, order_of(tmp_path), tmp_path / "helper.py", tmp_path / "costs.csv", tmp_path / "old"
    )
    assert found == ["HELP = 1", "", ""]


def test_a_program_finds_the_files_of_its_folder_through_links(isolated, tmp_path):
    real, links = tmp_path / "real", tmp_path / "links"
    for folder in (real, links):
        folder.mkdir()
    (real / "answer").write_text("[0, 0]")
    program = real / "program"
    program.write_text('#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/answer" "$(dirname "$1")/own" >&2\n')
    program.chmod(0o755)
    (links / "own").write_text(" and its own")
    (links / "file").touch()
    (links / "program").symlink_to(program)
    order = order_of(tmp_path, command=(str(links / "program"), str(links / "file"), "{instance}"))
    with isolated.supervisor() as supervisor:
        assert supervisor.run(order).log == "[0, 0] and its own"


def test_programs_on_the_path_find_their_libraries(isolated, tmp_path, monkeypatch):
    for name in ("bin", "lib"):
        (tmp_path / "local" / name).mkdir(parents=True)
    (tmp_path / "local" / "lib" / "data").write_text("there")
    program = tmp_path / "local" / "bin" / "tell"
    program.write_text('#!/bin/sh\ncat "${0%/*}/../lib/data" >&2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with isolated.supervisor() as supervisor:
        assert supervisor.run(order_of(tmp_path, command=("sh", "-c", "tell", "{instance}"))).log == "there"


def test_results_among_programs_and_packages_cannot_be_read(isolated, tmp_path, monkeypatch):
    (tmp_path / "solvers").mkdir()
    places = [tmp_path / name / "results" / FILE_NAME for name in ("programs", "packages")]
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_text("12")
        (place.parents[1] / "data").write_text("there")
    (tmp_path / "programs" / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    data = [place.parents[1] / "data" for place in places]
    assert read_in_isolation(isolated, order_of(tmp_path / "solvers"), *data, *places) == ["there"] * 2 + [""] * 2


@pytest.mark.gate
def test_paths_named_by_the_environment_are_shown(isolated, tmp_path, monkeypatch):
    licence = tmp_path / "licences" / "gurobi.lic"
    licence.parent.mkdir()
    licence.write_text("a key")
    (tmp_path / "solvers").mkdir()
    order = order_of(tmp_path / "solvers")
    assert read_in_isolation(isolated, order, licence) == [""]
    monkeypatch.setenv("LICENCE_FILE", str(licence))
    monkeypatch.setenv("SHARDMARK_ENVIRONMENT", "LICENCE_FILE ABSENT")
    assert read_in_isolation(isolated, order, licence) == ["a key"]


def test_homes_and_checkouts_are_empty(isolated, tmp_path):
    (tmp_path / "solvers").mkdir()
    order = order_of(tmp_path / "solvers")
    places = [Path("/home"), Path("/var/tmp"), *(visible_files.ROOT / name for name in ("tests", ".git", "README.md"))]
    found = read_in_isolation(isolated, order, *places, visible_files.ROOT, Path("/etc"))
    assert set(found[: len(places)]) <= {"", "[]"}
    assert set(ast.literal_eval(found[-2])) <= {"harness", "instances", "shardmark", "solvers", Path(sys.prefix).name}
    assert found[-1] != "[]"


def test_multiprocessing_by_spawning_works(isolated, tmp_path):
    order = order_of(
        tmp_path,
        """
        from multiprocessing import get_context
        with get_context("spawn").Pool(1) as pool:
            print(pool.map(abs, [-1, -2]))
        """,
    )
    with isolated.supervisor() as supervisor:
        assert supervisor.run(order).log == "[1, 2]\n"


# ---------------------------------------------------------------- the paths shown


@pytest.mark.parametrize("wide", ["/", "/data", "~", "~/..", "/tmp"])
def test_a_wide_folder_is_never_shown(monkeypatch, wide):
    monkeypatch.setenv("HOME", "/data/users/me")
    monkeypatch.setattr(visible_files.tempfile, "tempdir", "/tmp")
    assert visible_files._is_shared_folder(Path(os.path.normpath(os.path.expanduser(wide))))
    assert not visible_files._is_shared_folder(Path(os.path.expanduser("~/solvers")))


def test_a_checkout_is_wide_and_the_folder_of_an_installation_is_not(monkeypatch):
    assert visible_files._is_shared_folder(visible_files.ROOT)
    assert visible_files._is_shared_folder(visible_files.ROOT.parent)
    monkeypatch.setattr(visible_files, "CHECKOUT", None)
    assert not visible_files._is_shared_folder(Path("/opt/venv/lib/python3/site-packages"))


@pytest.mark.parametrize(
    ("folder", "installation"),
    [
        ("/data/venv/bin", "/data/venv"),
        ("/data/bin", "/data/bin"),
        ("/data/users/me/bin", "/data/users/me/bin"),
        ("/data/users/me/.local/bin", "/data/users/me/.local"),
        ("/data/users/me/scripts", "/data/users/me/scripts"),
    ],
)
def test_a_folder_of_programs_is_shown_with_its_installation(monkeypatch, folder, installation):
    monkeypatch.setenv("HOME", "/data/users/me")
    assert visible_files._installation(Path(folder)) == Path(installation)


def test_a_package_is_shown_wherever_it_was_imported_from(tmp_path, monkeypatch):
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert tmp_path / "acme" in visible_files.view_of("package:acme.blocks").shown
    assert tmp_path / "acme" not in visible_files.view_of("package:absent").shown


def test_a_checkout_among_the_system_s_folders_is_covered(monkeypatch):
    monkeypatch.setattr(visible_files, "CHECKOUT", Path("/usr/src/app"))
    assert visible_files._is_hideable(Path("/usr/src/app/results"))
    assert not visible_files._is_hideable(Path("/usr/lib"))
    assert "/usr/src/app" in visible_files._hidden_folders()


def test_every_folder_of_results_is_known_by_its_database():
    assert FILE_NAME in visible_files.ANSWERS


def test_the_records_are_hidden_where_the_project_is_installed_among_packages_too():
    assert FOLDER in visible_files.view_of("").hidden


def test_a_solver_of_the_project_needs_no_more_than_every_run():
    assert visible_files.view_of(
        str(visible_files.ROOT / "solvers" / "pipeline" / "random.py")
    ) == visible_files.view_of("")
