"""A wheel, installed in an empty environment elsewhere, is all of Shardmark: commands, data, pages and the API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from pathlib import Path

import pytest
from fake_github import lend_bytecode
from trial import FOUND, ROOMS, run, use, use_python

pytestmark = pytest.mark.gate

ROOT = Path(__file__).resolve().parents[1]
LATER = time.time() + 3600.0  # newer than all sources, so that it is not compiled again


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """The files of the project, as a clone has them."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in filter(None, listing.split("\0"))
        if os.path.lexists(ROOT / name) and not name.startswith("tests/")
    ]


@pytest.fixture(scope="module")
def distributions(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and source distribution, built from a copy with the C core compiled for this environment."""
    copy, output = copied(sources, tmp_path_factory.mktemp("copy")), tmp_path_factory.mktemp("dist")
    library = copy / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for built in (*ROOT.glob("solvers/_core.*so"), *ROOT.glob("instances/files/_reader.*so")):
        module = library / "shardmark" / built.relative_to(ROOT)
        module.parent.mkdir(parents=True)
        shutil.copyfile(built, module)
        os.utime(module, (LATER, LATER))
    folder = ["--dist-dir", str(output)]
    command = [sys.executable, "setup.py", "--quiet", "sdist", *folder, "bdist_wheel", *folder]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel."""
    (found,) = distributions.glob("*.whl")
    return found


def copied(sources: list[str], folder: Path) -> Path:
    """Copy the files of a clone into a folder, links as links; return it."""
    for name in sources:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def expected(sources: list[str]) -> set[str]:
    """The files of the package, by their names in a distribution."""
    rooms = {f"shardmark/{name}" for name in sources if name.split("/")[0] in ROOMS}
    return rooms | {name for name in sources if name.startswith("shardmark/") and not (ROOT / name).is_symlink()}


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder elsewhere with an environment, ``.venv``, of the wheel and the other packages of this one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / ".venv", symlinks=True)
    python = folder / ".venv" / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    base = {"base": str(folder / ".venv"), "platbase": str(folder / ".venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=base))
    lend_bytecode(packages / "shardmark", ROOT / "shardmark")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def test_it_holds_every_file_of_the_packages_and_what_is_compiled(wheel, sources):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    compiled = {name for name in held if name.endswith(".so")}
    assert held - compiled == expected(sources)
    assert {name.split(".")[0] for name in compiled} == {"shardmark/solvers/_core", "shardmark/instances/files/_reader"}


def test_the_example_of_the_documentation_works_elsewhere(place):
    """No module comes from the checkout, and what runs is known by its version although there are no C sources."""
    use_python(place)


@pytest.mark.thorough
def test_commands_work_elsewhere(place):
    """A release tries the same."""
    use(place)


def test_it_has_one_name_and_serves_every_python(wheel, place):
    assert run(place, "python", "-c", FOUND) == "[]\n"
    assert "-cp311-abi3-" in wheel.name


def test_the_source_distribution_has_every_file_once_and_the_c_core(sources, distributions):
    """The folders that `shardmark` has links to are there as folders, and only there."""
    (found,) = distributions.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        assert [member.name for member in archive if not member.isfile() and not member.isdir()] == []
        held = [member.name.partition("/")[2] for member in archive if member.isfile()]
    compiled = [name for name in sources if name.startswith("c_src/") and name.endswith((".c", ".h", ".py"))]
    made = {"PKG-INFO", "setup.cfg", *(name for name in held if name.startswith("shardmark.egg-info/"))}
    named = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"}
    assert sorted(set(held) - made) == sorted({*expected(sources), *compiled, *named})
    assert len(held) == len(set(held))


def test_an_archive_without_links_is_refused_instead_of_half_installed(sources, tmp_path):
    """As pip unpacks a .zip: what is a link in a clone is a file with the link's target."""
    copy = copied(sources, tmp_path / "copy")
    for room in ROOMS:
        target = (copy / "shardmark" / room).readlink()
        (copy / "shardmark" / room).unlink()
        (copy / "shardmark" / room).write_text(str(target))
    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=copy, capture_output=True, text=True)
    sentence = "expected a link to a folder; take the project by git or as .tar.gz, not as .zip"
    assert (done.returncode, done.stderr) == (1, f"shardmark/harness: {sentence}\n")
