"""External programs: what a TOML file may say, one sentence for every mistake, and what their version follows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shardmark.instances import InputError
from shardmark.solvers.external import SHIPPED, from_command, read_toml, toml_files
from shardmark.solvers.registry import NAME

ENTRY = """
[[solver]]
name = "team-7"
track = "intraop"
command = "./team7 --fast"
source = "a paper"
description = "Search."
"""


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    write(tmp_path / "team7", "#!/bin/sh\necho [0]\n", 0o755)
    return tmp_path


def read(folder: Path, text: str):
    return read_toml(write(folder / "some.toml", text))


def test_an_entry_is_a_program(folder):
    (program,) = read(folder, ENTRY + "deterministic = false\n")
    told = (program.name, program.track, program.source, program.description)
    assert told == ("team-7", "intraop", "a paper", "Search.")
    assert program.command == (str(folder / "team7"), "--fast")
    assert not program.deterministic
    assert program.error == ""


def test_the_file_that_comes_with_the_project_is_read_and_its_examples_are_right(folder):
    assert toml_files()[0] == SHIPPED
    assert read_toml(SHIPPED) == []
    entry, variants = (
        "\n".join(line[1:].strip() for line in block.splitlines())
        for block in SHIPPED.read_text().split("\n#\n")
        if block.startswith("#   ")
    )
    assert [program.name for program in read(folder, entry)] == ["team-7"]
    both = "\n".join(line for line in entry.splitlines() if not line.startswith("command")) + "\n" + variants
    assert [program.name for program in read(folder, both)] == ["team-7-quick", "team-7-patient"]


def test_variants_are_programs_of_their_own(folder):
    text = ENTRY.replace("--fast", "{instance} {timeout} -r {restarts} -x{loud}")
    text += "[solver.variants]\nquick = { restarts = 1, loud = true }\npatient = { restarts = 100, loud = false }\n"
    quick, patient = read(folder, text)
    assert quick.name == "quick"
    assert quick.command[1:] == ("{instance}", "{timeout}", "-r", "1", "-xtrue")
    assert patient.command[3:] == ("-r", "100", "-xfalse")
    assert patient.params == {"restarts": 100, "loud": False}
    assert quick.hash != patient.hash


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[solver]", "some.toml: expected TOML (Expected ']]' at the end of an array declaration (at line 1,"),
        ("", "some.toml: expected at least one table [[solver]]"),
        ("[solver]\nname = 'x'", "key 'solver': expected tables [[solver]], with two brackets"),
        ("solver = 3", "key 'solver': expected tables [[solver]], with two brackets"),
        (ENTRY + "[other]", "key 'other': expected only tables [[solver]]"),
        (ENTRY + "speed = 3", "solver 1 key 'speed': expected only the keys name, track, command,"),
        (ENTRY.replace('name = "team-7"', ""), "solver 1: expected a key 'name'"),
        (ENTRY.replace('command = "./team7 --fast"', ""), "solver 1: expected a key 'command'"),
        (ENTRY.replace('"team-7"', "7"), "solver 1 key 'name': expected a text, found 7"),
        (ENTRY.replace('"team-7"', '"Team 7"'), "solver 1 (Team 7) name 'Team 7': expected lower-case letters"),
        (ENTRY.replace('"intraop"', '"interop"'), "solver 1 (team-7) key 'track': expected one of intraop, pipeline"),
        (ENTRY.replace('"./team7 --fast"', "7"), "key 'command': expected a text or a list of texts, found 7"),
        (ENTRY.replace('"./team7 --fast"', "[]"), "key 'command': expected a program and its arguments, each a text"),
        (ENTRY.replace('"./team7 --fast"', '["./team7", 7]'), "expected a program and its arguments, each a text"),
        (ENTRY.replace("--fast", "'"), "key 'command': expected a command as a shell reads it (No closing quotation)"),
        (ENTRY.replace("--fast", "{time}"), "expected only the placeholders instance, timeout, seed, cores, memory"),
        (ENTRY + "deterministic = 1", "solver 1 key 'deterministic': expected true or false, found 1"),
        (ENTRY + "variants = 1", "solver 1 key 'variants': expected a table, found 1"),
        (ENTRY + "variants.fast = 1", "variant 'fast': expected a table of values for the command, found 1"),
        (ENTRY + "variants.fast = {a = [1]}", "variant 'fast' key 'a': expected a text, number or truth value"),
        (ENTRY + "variants.fast = {seed = 1}", "variant 'fast' key 'seed': expected a text, number or truth value"),
        (ENTRY + "variants.Fast = {}", "solver 1 (team-7) name 'Fast': expected lower-case letters"),
        (ENTRY + ENTRY, "name 'team-7': expected a name that intraop does not have yet, found it twice in this file"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_sentence_with_file_and_place(folder, text, sentence):
    with pytest.raises(InputError) as caught:
        read(folder, text)
    assert str(caught.value).startswith(str(folder / "some.toml"))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_that_cannot_be_started_is_a_finding(folder):
    write(folder / "plain", "no program")
    texts = {
        "./nowhere": f"there is no program {folder}/nowhere",
        "./plain": f"{folder}/plain is not executable",
        "plain": "there is no program 'plain' on the PATH, did you mean './plain'?",
        "a-program-that-nobody-has": "there is no program 'a-program-that-nobody-has' on the PATH",
    }
    for command, error in texts.items():
        (program,) = read(folder, ENTRY.replace("./team7 --fast", command))
        assert program.error == error


def test_files_that_the_command_names_are_found_in_the_folder_of_the_file_that_names_them(folder):
    write(folder / "solver.py", "print([0])")
    (program,) = read(folder, ENTRY.replace("./team7 --fast", "sh solver.py --data ./data other.py {instance}"))
    shell, script, _, data, *rest = program.command
    assert Path(shell).is_absolute()
    assert os.access(shell, os.X_OK)
    assert (script, data) == (str(folder / "solver.py"), str(folder / "data"))
    assert rest == ["other.py", "{instance}"]


def test_the_version_follows_the_entry_and_the_files_but_not_where_they_lie(folder, tmp_path_factory):
    script = write(folder / "solver.py", "print([0])")
    text = ENTRY.replace("./team7 --fast", "sh solver.py")
    versions = [read(folder, text)[0].hash, read(folder, text.replace("Search.", "Walk."))[0].hash]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere / "solver.py", "print([0])")
    assert read(elsewhere, text)[0].hash == versions[0]
    write(script, "print([1])")
    versions.append(read(folder, text)[0].hash)
    (direct,) = read(folder, ENTRY)
    write(folder / "team7", "#!/bin/sh\necho [1]\n", 0o755)
    assert read(folder, ENTRY)[0].hash != direct.hash
    assert len(set(versions)) == 3


def test_in_a_folder_only_files_about_solvers_count(folder):
    write(folder / "some.toml", ENTRY)
    write(folder / "pyproject.toml", "[project]\nname = 'x'\n")
    (folder / "_private").mkdir()
    write(folder / "_private" / "other.toml", ENTRY)
    assert toml_files([folder])[1:] == [folder / "some.toml"]
    assert toml_files([folder / "pyproject.toml"])[1:] == [folder / "pyproject.toml"]
    misspelt = write(folder / "other.toml", "[[solvers]]\n")
    assert misspelt in toml_files([folder])


@pytest.mark.parametrize(
    ("command", "name"),
    [("./team7", "team7"), ("sh ./My_Solver.sh", "my-solver.sh"), ("./__x__", "x"), ("echo [0]", "echo")],
)
def test_a_command_is_named_after_its_file(folder, monkeypatch, command, name):
    monkeypatch.chdir(folder)
    write(folder / "My_Solver.sh", "echo [0]", 0o755)
    write(folder / "__x__", "#!/bin/sh\necho [0]", 0o755)
    program = from_command(command, "pipeline")
    assert (program.name, program.track, program.description) == (name, "pipeline", command)
    assert NAME.fullmatch(program.name)
    assert all(Path(word).is_absolute() or word == "[0]" for word in program.command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("./nowhere {instance}", "expected a program that can be started, there is no program"),
        ("~nobody-of-that-name/solver", "expected a program that can be started, there is no program"),
        (9000 * "a", "expected a program that can be started, there is no program"),
        (f"./{9000 * 'a'}", "expected a program that can be started, there is no program"),
        ("", "expected a program and its arguments"),
        ("echo 'a", "expected a command as a shell reads it (No closing quotation)"),
        ("echo {what}", "expected only the placeholders"),
        ("split", "expected ./split, the file here, or /"),
    ],
)
def test_a_command_that_cannot_be_is_one_sentence(folder, monkeypatch, command, expected):
    monkeypatch.chdir(folder)
    write(folder / "split", "#!/bin/sh", 0o755)
    with pytest.raises(InputError, match=r"^command: ") as caught:
        from_command(command, "pipeline")
    assert expected in str(caught.value)
