"""Discovery imports files in child processes and lists files that fail with the error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from marked import until
from referee import needs_isolation

from shardmark.harness.campaign import discover as discovery
from shardmark.harness.campaign import survey_cache
from shardmark.harness.campaign.discover import SolverInfo, declared_in, discover
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.sandbox.contract import Limits
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError, tracks
from shardmark.solvers.registry import files_in, solver_files, source_hash

pytestmark = pytest.mark.gate(cases=1)

GOOD = '''
from shardmark.solvers.registry import solver
print("noise on stdout")
@solver(track="pipeline", source="x", variants={"v-1": {"a": 1}, "v-2": {"a": 2}})
def v(instance, run, *, a):
    """First line.

    More.
    """
'''


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def found_in(path: Path):
    return [info for info in discover([path]) if Path(info.file).is_relative_to(path)]


@pytest.mark.gate
def test_variants_are_solvers_of_their_own(tmp_path):
    write(tmp_path, "v.py", GOOD)
    write(tmp_path, "_helper.py", "raise RuntimeError")
    first, second = found_in(tmp_path)
    assert (first.name, first.params, first.description) == ("v-1", {"a": 1}, "First line.")
    assert (second.name, second.params, second.error) == ("v-2", {"a": 2}, "")


@pytest.mark.gate
def test_the_hash_follows_the_source_and_its_helpers(tmp_path):
    write(tmp_path, "v.py", GOOD)
    before = found_in(tmp_path)[0].hash
    write(tmp_path, "_helper.py", "x = 1")
    helped = found_in(tmp_path)[0].hash
    write(tmp_path, "v.py", GOOD + "# changed")
    assert len({before, helped, found_in(tmp_path)[0].hash}) == 3


@pytest.mark.gate
def test_files_that_fail_are_listed_under_their_own_name(zoo):
    assert "ModuleNotFoundError: No module named 'a_package_that_nobody_has'" in zoo["broken-import"].error
    assert zoo["exits-at-import"].error == "ended the process while it was imported (exit status 7)"
    assert zoo["good"].error == ""  # its file comes later in the alphabet


IMPORT = "from shardmark.solvers.registry import solver\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def (", "SyntaxError"),
        (IMPORT + "@solver(track='nowhere')\ndef f(i, r): ...", "track 'nowhere': expected one of intraop, pipeline"),
        (IMPORT + "@solver(track='pipeline', name='Bad Name')\ndef f(i, r): ...", "'Bad Name'"),
        (IMPORT + "@solver(track='pipeline', variants={'a': {'x': {1}}})\ndef f(i, r): ...", "JSON"),
    ],
)
def test_a_file_that_declares_nonsense_is_an_error_with_a_reason(tmp_path, text, error):
    write(tmp_path, "bad.py", text)
    infos = found_in(tmp_path)
    assert infos
    assert all(info.name == "bad" and error in info.error for info in infos)


def test_an_error_is_told_at_a_line_of_the_users_not_of_an_installed_package(tmp_path):
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "fragile.py").write_text("\n\nraise ValueError('fragile')\n")
    path = tmp_path / "bad.py"
    path.write_text(f"import sys\nsys.path.append({str(packages)!r})\nimport fragile\n")
    assert {info.error for info in declared_in(path)} == {"ValueError: fragile (bad.py:3)"}


def test_the_same_name_twice_is_refused(tmp_path):
    write(tmp_path, "a.py", GOOD.replace("v-1", "same"))
    write(tmp_path, "b.py", GOOD.replace("v-1", "same").replace("v-2", "other"))
    errors = [info.error for info in found_in(tmp_path) if info.error]
    assert len(errors) == 1
    assert "'same'" in errors[0]


@pytest.mark.gate
def test_a_file_that_fails_may_have_the_name_of_another_solver(tmp_path):
    for folder, name in (("a", "greedy"), ("b", "greedy"), ("c", "v")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, f"{name}.py", "def (" if name == "greedy" else GOOD)
    write(tmp_path / "c", "v_1.py", GOOD)
    found = {(info.track, info.name): info for info in discover([tmp_path])}
    assert found["intraop", "greedy"].error == ""
    assert [found["intraop", f"greedy-{n}"].file for n in (2, 3)] == [f"{tmp_path}/{f}/greedy.py" for f in "ab"]
    assert "SyntaxError" in found["intraop", "greedy-2"].error
    assert found["pipeline", "v-1"].file.endswith("v.py")
    assert "'v-1': expected a name that pipeline does not have yet" in found["pipeline", "v-1-2"].error


def test_a_path_that_does_not_exist_or_of_another_kind_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="expected a solver file or a folder of them"):
        discover([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="expected a Python file, a TOML file or a folder of them"):
        discover([write(tmp_path, "solver.txt", "")])
    with pytest.raises(InputError, match=r"none\.py: expected a file that declares a method, with @solver or @bound"):
        discover([write(tmp_path, "none.py", "")])


@pytest.fixture
def one_own_file(monkeypatch) -> None:
    """Survey one file as if it were all of the project's own: to import all of them takes half a second."""
    (own,) = (file for file in solver_files() if file.name == "greedy.py" and file.parent.name == "intraop")
    monkeypatch.setattr(
        discovery, "solver_files", lambda paths=(): [own, *(f for p in paths for f in files_in(p, ".py"))]
    )


@pytest.fixture
def surveys(tmp_path, monkeypatch, one_own_file) -> list[bool]:
    """Use a separate cache; return whether each import since was a survey of the project's own files."""
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "cache"))
    asked: list[bool] = []
    ask = discovery._imported

    def imported(*given, **options):
        asked.append(options.get("survey", False))
        return ask(*given, **options)

    monkeypatch.setattr(discovery, "_imported", imported)
    return asked


@pytest.mark.gate
def test_own_files_are_imported_once_until_one_changes(surveys, monkeypatch, tmp_path):
    found = discover()
    assert discover() == found
    assert surveys == [True]
    (kept,) = (tmp_path / "cache" / "solvers").iterdir()
    monkeypatch.setattr(survey_cache, "FOLDERS", (*survey_cache.FOLDERS, "instances"))  # as if there were new files
    assert discover() == found
    for damage in (b"", b"[]", b"{", b'{"stamp": 1}', kept.read_bytes().replace(b'"kind"', b'"sort"')):
        kept.write_bytes(damage)
        assert discover() == found
    assert surveys == [True] * 7


def test_an_edit_changes_the_stamp_of_a_survey(monkeypatch, tmp_path):
    tmp_path /= os.fsdecode(b"not utf-8 \xff")
    tmp_path.mkdir()
    monkeypatch.setattr(survey_cache, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    stamps = [survey_cache.stamp()]
    for place, text in (("solvers/a.py", "1"), ("solvers/a.py", "2"), ("c_src/b.c", ""), ("site/new.dist-info", "")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(text)
        os.utime(tmp_path / place, ns=(len(stamps), len(stamps)))
        stamps.append(survey_cache.stamp())
    assert len(set(stamps)) == len(stamps)


@pytest.mark.gate
def test_a_survey_that_finds_a_broken_file_is_not_kept(surveys, monkeypatch, tmp_path):
    broken = [*discovery.solver_files(), write(tmp_path, "broken.py", "def (")]
    monkeypatch.setattr(discovery, "solver_files", lambda paths=(): broken)
    for _ in range(2):
        assert any("SyntaxError" in info.error for info in discover())
    assert surveys == [True, True]


@pytest.mark.gate
def test_without_a_cache_own_files_are_imported_each_time(surveys, monkeypatch, tmp_path):
    write(tmp_path, "file", "")
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "file"))
    assert discover() == discover()
    assert surveys == [True, True]


PACKAGE = '''
from shardmark.solvers.registry import solver
from acme_solvers import _secret

@solver(track="pipeline", source="a package")
def acme(instance, run):
    """Everything in one block."""
    run.report(_secret.answer(instance))
'''
METADATA = "Metadata-Version: 2.1\nName: acme-solvers\nVersion: 1.2\n"


@pytest.fixture
def package(tmp_path, monkeypatch, one_own_file) -> Path:
    """A package as pip installs it, on the path of every Python process started from here."""
    folder = tmp_path / "site"
    (folder / "acme_solvers").mkdir(parents=True)
    (folder / "acme_solvers-1.2.dist-info").mkdir()
    write(folder / "acme_solvers", "__init__.py", "")
    write(folder / "acme_solvers", "_secret.py", "def answer(instance):\n    return [0] * instance.nodes\n")
    write(folder / "acme_solvers", "blocks.py", PACKAGE)
    write(folder / "acme_solvers-1.2.dist-info", "METADATA", METADATA)
    declare(folder, "blocks = acme_solvers.blocks")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


def declare(folder: Path, line: str) -> None:
    write(folder / "acme_solvers-1.2.dist-info", "entry_points.txt", f"[shardmark.solvers]\n{line}\n")


def installed() -> list[SolverInfo]:
    return [info for info in discover() if info.file.startswith("package:")]


@pytest.mark.gate
def test_an_installed_package_brings_solvers_that_run(package, chain):
    (info,) = installed()
    assert (info.name, info.file, info.source, info.error) == ("acme", "package:acme_solvers.blocks", "a package", "")
    with Supervisor() as supervisor:
        row = perform(Job(info, chain, 0, Limits(10.0, 1024.0)), supervisor)
    assert (row.status, row.cost) == ("ok", 10.0)


@pytest.mark.gate
def test_the_version_of_a_package_follows_its_files_and_its_number(package):
    versions = [installed()[0].hash]
    write(package / "acme_solvers", "_secret.py", "def answer(instance):\n    return [1] * instance.nodes\n")
    versions.append(installed()[0].hash)
    write(package / "acme_solvers-1.2.dist-info", "METADATA", METADATA.replace("1.2", "1.3"))
    versions.append(installed()[0].hash)
    assert len(set(versions)) == 3


@pytest.mark.gate
@pytest.mark.parametrize(
    ("line", "name", "error"),
    [
        ("x = acme_solvers.nowhere", "acme-solvers.nowhere", "No module named 'acme_solvers.nowhere'"),
        ("x = a_package_that_nobody_has", "a-package-that-nobody-has", "No module named 'a_package_that_nobody_has'"),
        ("x = acme_solvers.blocks:acme", "acme-solvers.blocks-acme", "expected the entry point to name a module"),
    ],
)
def test_an_entry_point_that_fails_is_a_row_in_every_track(package, line, name, error):
    declare(package, line)
    rows = installed()
    assert [row.track for row in rows] == sorted(tracks())
    assert all(row.name == name and error in row.error for row in rows)


@pytest.mark.gate
def test_a_package_that_ends_its_process_hides_no_other(package, tmp_path):
    write(package / "acme_solvers", "down.py", "import os; os._exit(3)")
    declare(package, "a = acme_solvers.down\nb = acme_solvers.blocks")
    file = write(tmp_path, "v.py", GOOD)
    found = {info.name: info.error for info in discover([file])}
    assert found["acme"] == found["v-1"] == found["greedy"] == ""
    assert found["acme-solvers.down"] == "ended the process while it was imported (exit status 3)"


def test_a_process_left_by_an_import_delays_nothing(tmp_path):
    lasting = "import subprocess\nsubprocess.Popen(['sleep', '3600'])\n"
    write(tmp_path, "v.py", lasting + GOOD)
    assert [info.error for info in found_in(tmp_path)] == ["", ""]


TOML = '[[solver]]\nname = "{}"\ntrack = "{}"\ncommand = "{}"\nsource = "x"\ndescription = "Echo."\n'


def test_a_toml_in_a_folder_brings_programs(tmp_path):
    write(tmp_path, "v.py", GOOD)
    gone = TOML.format("gone", "pipeline", "./gone {instance}")
    write(tmp_path, "two.toml", TOML.format("echo", "pipeline", "echo [0]") + gone)
    infos = {info.name: info for info in found_in(tmp_path)}
    assert set(infos) == {"v-1", "v-2", "echo", "gone"}
    assert infos["echo"].command[1:] == ("[0]",)
    assert infos["echo"].kind == "solver"
    assert infos["v-1"].command == ()
    assert infos["gone"].error == f"there is no program {tmp_path}/gone"


def test_a_program_cannot_take_the_name_of_another_solver(tmp_path):
    with pytest.raises(InputError, match="greedy: expected a name that intraop does not have yet"):
        discover([write(tmp_path, "a.toml", TOML.format("greedy", "intraop", "echo"))])


DECLARES = IMPORT + "import json, os, sys\n{}\n@solver(track='pipeline', name='mine'{})\ndef f(i, r):\n    {}\n"


def written(folder: Path, first: str = "", declared: str = "", body: str = "...") -> list[SolverInfo]:
    """Return the solvers of a folder with this file and a good one."""
    write(folder, "bad.py", DECLARES.format(first, declared, body))
    write(folder, "v.py", GOOD)
    infos = {info.name: info for info in found_in(folder)}
    assert infos.pop("v-1").error == infos.pop("v-2").error == ""
    return list(infos.values())


@pytest.mark.gate
def test_a_file_cannot_change_declarations_of_another(tmp_path):
    forging = """
from shardmark.solvers import registry
from shardmark.harness.sandbox import worker
real = worker.describe
registry.source_hash = lambda place: "0" * 64
worker.describe = lambda solver: {**real(solver), "source": "forged", "hash": "0" * 64, "file": "elsewhere"}
sys.modules["__main__"].describe = worker.describe
"""
    (mine,) = written(tmp_path, forging)
    assert (mine.source, mine.file) == ("forged", str(tmp_path / "bad.py"))
    others = [info for info in found_in(tmp_path) if info.name != "mine"]
    assert {info.source for info in others} == {"x"}
    assert {info.hash for info in [mine, *others]} == {source_hash(tmp_path / "v.py"), source_hash(tmp_path / "bad.py")}


def test_a_fork_at_import_does_not_answer(tmp_path):
    (mine,) = written(tmp_path, "os.fork()")
    assert (mine.name, mine.error) == ("mine", "")


WRITE = "for n in range(1, 20):\n    try: os.write(n, {!r})\n    except OSError: pass"


NOISE = (
    *(b"noise\n", b"\xff\n", b"1\n", b"null\n", b"{}\n", b'{"end": "elsewhere", "solvers": []}\n'),
    *(b'{"end": 1, "error": 1}\n', b"[" * 100_000 + b"\n", b"x" * (1 << 21)),
)


@pytest.mark.thorough(cases=7)
@pytest.mark.parametrize(
    ("first", "declared", "error"),
    [
        *(
            pytest.param(WRITE.format(noise), "", "its answer is not a list", id=str(i))
            for i, noise in enumerate(NOISE)
        ),
        ("", ", source={'a': 1}", "a source that is not text"),
        ("", ", deterministic=1", "deterministic that is neither true nor false"),
        ("", ", proves_bounds=0", "proves_bounds that is neither true nor false"),
        ("", ", variants={'a': {'x': 1e999}}", "JSON compliant"),
        ("os.kill(os.getpid(), 9)", "", "ended the process while it was imported (exit status "),
    ],
)
def test_noise_or_a_wrong_declaration_is_the_error_of_its_file(tmp_path, first, declared, error):
    infos = written(tmp_path, first, declared)
    assert infos
    assert all(info.name == "bad" and error in info.error for info in infos)


def test_texts_and_parameters_are_made_storable(tmp_path):
    declared = r", source='a\x1b[2J\n b', variants={'mine': {'x': '\ud800', 'y': 2}}"
    half = (
        "?" if sys.version_info >= (3, 13) else r"\ud800"
    )  # newer ones refuse a file with half a character in a docstring
    (mine,) = written(tmp_path, declared=declared, body=f'"Half {half}."')
    assert (mine.source, mine.description, mine.params) == ("a?[2J b", "Half ?.", {"x": "?", "y": 2})


REACHES = """
import socket, subprocess, time
try:
    open({!r}, "w")
except OSError:
    pass
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    network = error.strerror
open("own", "w").write("x")
later = "import time; time.sleep(3600) #" + {!r}
subprocess.Popen([sys.executable, "-c", later], start_new_session=True)
"""


@needs_isolation
def test_an_import_reaches_nothing_and_leaves_nothing(tmp_path):
    mark = uuid4().hex
    (mine,) = written(tmp_path, REACHES.format(str(tmp_path / "left"), mark), ", source=network")
    assert (mine.error, mine.source) == ("", "Network is unreachable")
    assert not (tmp_path / "left").exists()
    assert not any(mark in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


@pytest.mark.gate
def test_an_import_that_takes_too_long_is_the_error_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("shardmark.harness.campaign.discover.IMPORT_TIMEOUT_S", 1.0)
    infos = declared_in(write(tmp_path, "bad.py", "import time; time.sleep(3600)"))
    assert {(info.name, info.error) for info in infos} == {("bad", "was not imported within 1 s")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_imports_end_with_their_client(tmp_path, number):
    """SIGINT is an exception in the main thread, as on the command line."""
    files = [write(tmp_path, f"sleeps_{i}.py", "import time; time.sleep(3600)") for i in range(4)]
    places = dict.fromkeys(map(str, files), "")
    program = f"from shardmark.harness.campaign.discover import _import_separately; _import_separately({places})"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    started = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    until(lambda: len(list(scratch.iterdir())) >= 2)
    started.send_signal(number)
    started.wait(20)
    until(lambda: not any(scratch.iterdir()))
    until(lambda: str(tmp_path) not in str([p.info for p in psutil.process_iter(["cmdline"])]))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("x = bytearray(5 << 30)", "needs more memory than an import may use"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "used more than 60 s of CPU time while it was imported"),
    ],
    ids=["memory", "CPU time"],
)
def test_an_import_beyond_its_limits_is_the_error_of_its_file(tmp_path, body, error):
    infos = declared_in(write(tmp_path, "bad.py", f"import os, signal\n{body}"))
    assert {info.error for info in infos} == {error}
