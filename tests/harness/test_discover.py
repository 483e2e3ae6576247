"""Discovery asks a child process, and a file that fails is a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.discover import discover
from instances import InputError

GOOD = '''
from solvers.registry import solver
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


def test_variants_are_solvers_of_their_own(tmp_path):
    write(tmp_path, "v.py", GOOD)
    write(tmp_path, "_helper.py", "raise RuntimeError")
    first, second = found_in(tmp_path)
    assert (first.name, first.params, first.description) == ("v-1", {"a": 1}, "First line.")
    assert (second.name, second.params, second.error) == ("v-2", {"a": 2}, "")


def test_the_hash_follows_the_source_and_its_helpers(tmp_path):
    write(tmp_path, "v.py", GOOD)
    before = found_in(tmp_path)[0].hash
    write(tmp_path, "_helper.py", "x = 1")
    helped = found_in(tmp_path)[0].hash
    write(tmp_path, "v.py", GOOD + "# changed")
    assert len({before, helped, found_in(tmp_path)[0].hash}) == 3


def test_files_that_fail_stand_under_their_own_name(zoo):
    assert "ModuleNotFoundError: No module named 'a_package_that_nobody_has'" in zoo["broken-import"].error
    assert zoo["exits-at-import"].error == "ended the process while it was imported (exit status 7)"
    assert zoo["good"].error == ""  # comes after them in the alphabet


IMPORT = "from solvers.registry import solver\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def (", "SyntaxError"),
        (IMPORT + "@solver(track='nowhere')\ndef f(i, r): ...", "declares the track 'nowhere'"),
        (IMPORT + "@solver(track='pipeline', name='Bad Name')\ndef f(i, r): ...", "'Bad Name'"),
        (IMPORT + "@solver(track='pipeline', variants={'a': {'x': {1}}})\ndef f(i, r): ...", "JSON"),
    ],
)
def test_a_file_that_declares_nonsense_is_an_error_with_a_reason(tmp_path, text, error):
    write(tmp_path, "bad.py", text)
    infos = found_in(tmp_path)
    assert infos
    assert all(info.name == "bad" and error in info.error for info in infos)


def test_the_same_name_twice_is_refused(tmp_path):
    write(tmp_path, "a.py", GOOD.replace("v-1", "same"))
    write(tmp_path, "b.py", GOOD.replace("v-1", "same").replace("v-2", "other"))
    errors = [info.error for info in found_in(tmp_path) if info.error]
    assert len(errors) == 1
    assert "'same'" in errors[0]


def test_a_path_that_does_not_exist_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="expected a solver file or a folder of them"):
        discover([tmp_path / "nowhere"])
