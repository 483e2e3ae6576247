"""Solvers that write where they should not: to the instance, the database, their folder, everywhere."""

import contextlib
import ctypes
import gzip
import itertools
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from _reporting import reporting

from shardmark import harness
from shardmark.instances import catalog
from shardmark.solvers.registry import solver

MIB = 1 << 20
ROOT = Path(harness.__file__).parents[1]
MS_BIND_REMOUNT = 0x1000 | 0x20


def instance_file():
    """Return the path of the referee's instance."""
    return Path(os.environ["ZOO_INSTANCE"])


def database():
    """Return the path of the results."""
    return Path(os.environ["ZOO_DATABASE"])


def attempt(*actions):
    """Call each action and print its result or error."""
    for action in actions:
        try:
            print(action())
        except Exception as error:
            print(type(error).__name__, error)


@solver(track="pipeline")
def looks_answers_up(instance, run):
    """Read published costs, folders of results and sites, and print each file found."""
    kept = database().parents[1]
    published = [
        catalog.CATALOG,
        *(file for room in ("harness", "leaderboard") for file in ROOT.joinpath(room).rglob("*.toml")),
    ]
    for path in (*published, *kept.glob("*/*.sqlite"), *kept.glob("*/*.html"), *kept.glob("*.csv")):
        with contextlib.suppress(OSError):
            if path.read_bytes():
                print("found", path.name)
    print("looked everywhere")
    return [0] * instance.nodes


@solver(track="pipeline")
def rewrites_the_instance(instance, run):
    """Replace its instance by an easier one."""
    path = instance_file()
    easier = path.read_text().replace("[3,2,4,1]", "[0,0,0,0]").replace("[3, 2, 4, 1]", "[0, 0, 0, 0]")
    attempt(
        lambda: path.chmod(0o666),
        lambda: path.write_text(easier),
        path.unlink,
        lambda: path.with_suffix(".gz").write_bytes(gzip.compress(easier.encode())),
        lambda: path.write_text(easier),
    )
    return [0] * instance.nodes


@solver(track="pipeline")
def writes_to_the_database(instance, run):
    """Make every run in the database its own, and the best; then spoil the file."""
    path = database()

    def cheat():
        with sqlite3.connect(path, timeout=1.0) as connection:
            connection.execute("UPDATE runs SET cost = '0.0', status = 'ok'")

    attempt(cheat, lambda: os.truncate(path, 10), lambda: path.write_bytes(b"x" * 100), path.unlink)
    return [0] * instance.nodes


@solver(track="pipeline")
def links_to_the_database(instance, run):
    """Write to the database through links in its own folder, and leave them there."""
    path = database()
    attempt(
        lambda: os.symlink(path, "link"),
        lambda: os.symlink(path.parent, "folder"),
        lambda: os.link(path, "hard"),
        lambda: Path("link").write_bytes(b"x"),
        lambda: Path("folder", path.name).write_bytes(b"x"),
        lambda: Path("hard").write_bytes(b"x"),
    )
    return [0] * instance.nodes


@solver(track="pipeline")
def swaps_its_folder(instance, run):
    """Replace its own folder by a link to the results, which a cleanup might follow."""
    folder = Path.cwd()
    attempt(
        lambda: folder.rename(f"{folder}-gone"),
        lambda: shutil.rmtree(folder),
        lambda: os.symlink(database().parent, folder),
    )
    return [0] * instance.nodes


@solver(track="pipeline")
def deletes_its_folder(instance, run):
    """Delete the folder it works in."""
    attempt(lambda: shutil.rmtree(os.getcwd()))
    return [0] * instance.nodes


@solver(track="pipeline")
def locks_its_folder(instance, run):
    """Remove all permissions from its own folder."""
    Path("deep/deeper").mkdir(parents=True)
    for name in ("deep/deeper", "deep", "."):
        os.chmod(name, 0)
    return [0] * instance.nodes


@solver(track="pipeline")
def leaves_files_everywhere(instance, run):
    """Write to every folder that programs use to leave something behind."""
    name = f"{os.environ['ZOO_TOKEN']}.txt"
    for folder in (
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/run",
        Path.home(),
        "/",
        tempfile.gettempdir(),
        Path(__file__).parent,
    ):
        attempt(lambda folder=folder: Path(folder, name).write_text("x"))
    return [0] * instance.nodes


@reporting
def many_files(instance, run):
    """Write as many small files as there are time and space for."""
    with contextlib.suppress(OSError):
        for folder in itertools.count():
            os.mkdir(str(folder))
            for name in range(1000):
                os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY))
    time.sleep(60)


@reporting
def fills_its_folder(instance, run):
    """Write 600 MiB to its folder."""
    for number in range(60):
        Path(str(number)).write_bytes(b"x" * (10 * MIB))
    time.sleep(60)


@reporting
def one_large_file(instance, run):
    """Write 200 MiB to one file without a name."""
    with tempfile.TemporaryFile(buffering=0) as file:
        with contextlib.suppress(OSError):
            for _ in range(200):
                file.write(b"x" * MIB)
        time.sleep(60)


@solver(track="pipeline")
def sparse_file(instance, run):
    """Make a file of a TiB that holds nothing."""
    attempt(lambda: os.truncate(os.open("hole", os.O_CREAT | os.O_RDWR), 1 << 40))
    return [0] * instance.nodes


@solver(track="pipeline")
def remounts(instance, run):
    """Take back the right to write."""
    if os.readlink("/proc/self/ns/mnt") == os.environ["ZOO_MOUNTS"]:
        raise RuntimeError("this run shares the mounts of others")
    libc = ctypes.CDLL(None, use_errno=True)
    path = database()
    for place in (*path.parents,):
        attempt(
            lambda place=place: (place, libc.mount(None, str(place).encode(), None, MS_BIND_REMOUNT, None)),
            lambda place=place: (place, libc.umount2(str(place).encode(), 2)),
        )
    attempt(lambda: path.write_bytes(b"x"))
    return [0] * instance.nodes


@solver(track="pipeline")
def uses_its_folder(instance, run):
    """Write files where it may, and read them again."""
    Path("notes").mkdir()
    Path("notes/one.txt").write_text("1")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("x" * MIB)
        print("temporary files go to", os.path.dirname(file.name) == os.getcwd())
    print("found", [str(path) for path in Path().rglob("*.txt")])
    return [0] * instance.nodes


@solver(track="pipeline")
def tells_the_system(instance, run):
    """Open for writing what would have the system start a program of one's own, as root, when another crashes."""
    attempt(lambda: open("/proc/sys/kernel/core_pattern", "r+").name)  # noqa: SIM115 at once closed
    return [0] * instance.nodes


@solver(track="pipeline")
def opens_devices(instance, run):
    """Look for disks that it may write to."""
    disks = (path for path in Path("/dev").rglob("*") if path.is_block_device() and os.access(path, os.W_OK))
    print([str(path) for path in disks])
    return [0] * instance.nodes
