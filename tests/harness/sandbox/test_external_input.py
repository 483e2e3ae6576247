"""External programs in any language, started as in the contest, and their rows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import given_time
from referee import SIGKILLED

from shardmark.cli.arguments import main
from shardmark.harness.campaign.discover import from_command
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.backends.choice import choose
from shardmark.harness.sandbox.contract import Limits
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError, catalog

pytestmark = [pytest.mark.usefixtures("posix_for_auto"), pytest.mark.gate(cases=1)]

HERE = Path(__file__).parent
AMPLE = Limits(10.0, 512.0)


@pytest.fixture(scope="session")
def contest_solver(tmp_path_factory) -> Path:
    """The C++ program of this folder, compiled."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++ to compile a program that speaks the contest's protocol")
    program = tmp_path_factory.mktemp("programs") / "contest_solver"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "contest_solver.cpp"]
    subprocess.run(command, check=True)
    return program


def embedded(name: str) -> Problem:
    entry = catalog.find(name)
    return Problem.of(entry, catalog.locate(entry))


@pytest.fixture(scope="module")
def supervisor():
    with Supervisor() as one:
        yield one


@pytest.fixture
def run(tmp_path, chain, supervisor):
    """Run the lines of a shell script as an external solver on the chain: one block costs 10, the best cut costs 6."""

    def run(script: str, *, arguments: str = "", timeout: float = 60.0, problem: Problem = chain, **limits) -> Record:
        path = tmp_path / "solver.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        solver = from_command(f"{path} {arguments}", problem.track)
        return perform(Job(solver, problem, 3, Limits(timeout, 512.0, **limits)), supervisor)

    return run


# ---------------------------------------------------------------- the contest's protocol


@pytest.mark.gate
@pytest.mark.parametrize("name", ["diamond", "triangle", "sharded-transformer-2", "sharded-u-net-4", "menus-150"])
def test_a_program_for_the_contest_runs_unmodified(contest_solver, supervisor, name):
    problem = embedded(name)
    row = perform(Job(from_command(str(contest_solver), "intraop"), problem, 0, Limits(2.0, 512.0)), supervisor)
    assert (row.stop, row.status, row.reason) == ("exit", "ok", "")
    assert row.cost >= int(problem.published.get("lower_bound", 1))
    assert len(row.incumbents) == 1
    if problem.published:
        assert row.cost == int(problem.published["best_cost"])


@pytest.mark.parametrize(("limits", "isolation"), [("posix", "auto"), ("posix", "none"), ("benchexec", "auto")])
def test_it_runs_on_every_backend(contest_solver, tmp_path, chain, limits, isolation):
    try:
        backend = choose(limits, isolation)
    except InputError as error:
        pytest.skip(str(error))
    script = tmp_path / "solver.sh"
    script.write_text('echo "[0,0,1,1]"; (echo spoiled > "$1") 2>/dev/null; ls -A; echo lost >&2; exit 3\n')
    with backend.supervisor() as supervisor:
        row = perform(Job(from_command(str(contest_solver), "intraop"), embedded("diamond"), 0, AMPLE), supervisor)
        assert (row.status, row.cost, row.backend) == ("ok", 137, limits)
        row = perform(Job(from_command(f"sh {script}", "pipeline"), chain, 0, AMPLE), supervisor)
        assert (row.status, row.reason, row.cost) == ("crash", "ended with exit status 3", 6.0)
        assert row.log == "lost\n"  # it began in an empty folder


def test_it_solves_a_file_of_the_contest(contest_solver, supervisor, mirror):
    entry = catalog.find("contest-G")
    problem = Problem(entry.id, catalog.locate(entry, mirror), entry.track, {}, entry.published, entry.time_limit_s)
    row = perform(Job(from_command(str(contest_solver), "intraop"), problem, 0, Limits(5.0, 512.0)), supervisor)
    assert row.status == "ok"
    assert row.cost >= float(problem.published["lower_bound"])


def test_it_gets_the_plain_file_and_the_seconds_until_its_deadline(run):
    row = run('head -c 40 "$1" >&2; echo " argument 2: $2 of $#" >&2; echo "[0]"', problem=embedded("experts-8"))
    assert row.log.startswith('{"format":"shardmark/pipeline/1"')
    assert "argument 2: 59.5 of 2" in row.log


def test_options_of_the_track_are_in_the_file_that_it_gets(run):
    script = 'grep -o "\\"stages\\": *[0-9]*" "$1"; echo "[0]"'
    assert '"stages":16' in run(script, problem=embedded("resnet-50")).log.replace(" ", "")
    assert '"stages":4' in run(script, problem=embedded("resnet-50-k4")).log.replace(" ", "")


def test_a_program_changes_its_own_copy_of_the_instance(run, chain):
    before = chain.path.read_bytes()
    row = run('echo spoiled > "$1"; rm "$1"; echo "[0,0,1,1]"')
    assert (row.status, row.cost) == ("ok", 6.0)
    assert chain.path.read_bytes() == before


def test_a_changed_or_missing_instance_is_an_error(run, chain, tmp_path):
    problem = Problem("mine", Path(shutil.copy(chain.path, tmp_path / "mine.json")), "pipeline")
    assert run('echo "[0,0,1,1]"', problem=problem).cost == 6.0
    problem.path.write_text(problem.path.read_text() + "\n")
    row = run('echo "[0,0,1,1]"', problem=problem)
    assert row.status == "error"
    assert "expected the content that was first read, but the file has changed" in row.reason
    problem.path.unlink()
    assert "expected a file that can be read and copied" in run('echo "[0,0,1,1]"', problem=problem).reason


def test_placeholders_are_filled_in(run):
    row = run('echo "$@"; echo "[0,0,1,1]"', arguments="-s{seed} --cores={cores} {memory} -t {timeout} {instance}")
    words = row.log.split()
    assert words[:5] == ["-s3", "--cores=1", "512", "-t", "59.5"]
    assert words[5].endswith("chain.json")
    assert len(words) == 6


# ---------------------------------------------------------------- its answer


@pytest.mark.parametrize(
    ("script", "cost"),
    [
        ('echo "[0,0,1,1]"', 6.0),
        ('printf "[0,0,1,1]"', 6.0),
        ('printf "[0,0,1,1]\\r\\n"', 6.0),
        ('echo "  [0, 0, 1, 1]  "', 6.0),
        ('echo reading; echo "[0,0,0,0]"; echo "found better"; echo "[0,0,1,1]"; echo "[done] in 3 s"', 6.0),
        ('echo "[0,0,1,1]"; echo "[0,0,0,0]"', 10.0),
        ('echo "{\\"block\\": [0,0,1,1], \\"order\\": [0,1,2,3]}"; echo bye', 6.0),
        ('echo "[0,0,1,1]"; echo "[0,0," ; echo "1,1]"', 6.0),
        ('echo "[0,0,1,1]"; echo "[NaN]" ', 6.0),
        ('echo "[0,0,1,1]" ; echo "[0,0,0,0]" >&2', 6.0),
    ],
)
def test_the_last_line_that_is_a_json_list_or_object_is_the_answer(run, script, cost):
    row = run(script)
    assert (row.status, row.reason, row.cost) == ("ok", "", cost)
    assert len(row.incumbents) == 1
    assert 0 < row.incumbents[0].time_s <= row.wall_s


def test_other_lines_and_stderr_are_log(run):
    row = run('echo one; echo "[0,0,1,1]"; echo two >&2; sleep 0.1; printf three')
    assert sorted(row.log.split()) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("true", "none", "reported no solution"),
        ("echo thinking; echo '(0, 0, 1, 1)'", "none", "reported no solution"),
        ("head -c 100000 /dev/urandom", "none", "reported no solution"),
        ("echo '[0,0,1]'", "infeasible", "4"),
        ("echo '[0,0,1,7]'", "infeasible", "7"),
        ("echo '[]'", "infeasible", "4"),
        ("echo '{\"answer\": 42}'", "infeasible", "answer"),
        ("exit 3", "crash", "ended with exit status 3"),
        ("kill -SEGV $$", "crash", "killed by SIGSEGV"),
        ("exec /a/program/that/is/not/there", "crash", "ended with exit status 127"),
    ],
)
def test_a_missing_or_wrong_answer_has_a_reason(run, script, status, reason):
    row = run(script)
    assert row.status == status
    assert reason in row.reason
    assert row.cost is None


def test_a_script_that_names_no_interpreter_is_a_crash_with_a_reason(tmp_path, chain, supervisor):
    path = tmp_path / "solver"
    path.write_bytes(b"\x7fno program at all")
    path.chmod(0o755)
    row = perform(Job(from_command(str(path), "pipeline"), chain, 0, Limits(5.0, 512.0)), supervisor)
    assert row.status == "crash"
    assert "Exec format error" in row.log + row.reason


# ---------------------------------------------------------------- its reports


@pytest.mark.parametrize(
    ("script", "costs", "bounds"),
    [
        ("""echo '{"solution": [0,0,0,0]}'; echo '{"bound": 5}'; echo '{"solution": [0,0,1,1]}'""", [6, 10], [5]),
        ("""echo '{"solution": [0,0,1,1], "cost": 6}'; echo '{"bound": 5.5}'; echo '[0,0,0,0]'""", [6, 10], [5.5]),
        ("""echo '[0,0,0,0]'; echo '{"cost": 6.0, "solution": {"block": [0,0,1,1]}}'""", [6, 10], []),
        ("""printf '{"solution": [0,0,1,1]}'""", [6], []),
    ],
)
def test_solutions_and_bounds_count_as_they_are_printed(run, script, costs, bounds):
    row = run(script)
    assert (row.status, row.reason, row.cost, row.log) == ("ok", "", 6.0, "")
    assert sorted(found.cost for found in row.incumbents) == costs  # lines that are read at once have one time stamp
    assert [found.time_s for found in row.incumbents] == sorted(found.time_s for found in row.incumbents)
    assert [found.value for found in row.bounds] == bounds
    assert row.lower_bound == max(bounds, default=None)


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ('{"solution": [0,0,', "ok", 'not valid JSON; it begins {"solution": [0,0,'),
        (
            '{"solution": [0], "bound": 1}',
            "ok",
            'not an object with "solution" and optionally "cost", or with only "bound"',
        ),
        ('{"solution": [0,0,1,1], "time": 1}', "ok", "not an object"),
        ('{"bound": "6"}', "ok", "reported a bound that is not a finite number"),
        ('{"bound": NaN}', "ok", "not valid JSON"),
        ('{"solution": [0,0,0,0], "cost": "low"}', "ok", "claimed a cost that is not a finite number"),
        ('{"solution": 7}', "ok", "is malformed: solution: expected a list of 4 integers, found 7"),
        ('{"solution": [0,1,0,1]}', "ok", "is infeasible: solution: expected no cycle"),
        ('{"solution": [0,0,0,0], "cost": 9}', "misclaim", ""),
        ('{"bound": 7}', "contradiction", ""),
    ],
)
def test_a_wrong_report_has_a_sentence_in_the_log_and_the_others_count(run, line, status, reason):
    row = run(f"""echo '{{"solution": [0,0,1,1]}}'; echo '{line}'; echo '{{"bound": 5}}'""")
    assert (row.status, row.cost) == (status, 6.0)
    assert 5 in [bound.value for bound in row.bounds]
    assert reason in row.log
    assert row.log.count("(referee: ") == bool(reason)


@pytest.mark.gate
def test_a_report_cut_off_by_the_time_limit_is_left_out(run):
    script = """echo '{"solution": [0,0,1,1]}'; printf '{"solution": [0,0'; sleep 3600"""
    row = given_time(lambda limit: run(script, timeout=limit), lambda row: row.incumbents)
    assert (row.status, row.cost, len(row.incumbents)) == ("timeout", 6.0, 1)
    assert row.incumbents[0].time_s < row.timeout_s
    assert row.log.endswith('it begins {"solution": [0,0)\n')


@pytest.mark.gate
def test_of_a_flood_of_reports_the_first_and_the_last_are_verified(run):
    script = """yes '{"solution": [0,0,0,0]}' | head -n 100000; echo '{"solution": [0,0,1,1]}'; echo '[0,0,1,0]'"""
    row = run(script, timeout=120.0)
    assert (row.status, row.cost, len(row.incumbents)) == ("ok", 6.0, 1001)
    assert "and dropped 99001 in between" in row.log


GOOD = """echo '{"solution": [0,0,1,1]}'"""


@pytest.mark.gate
@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        (r"""printf '{"solution": [0,\377,0]}\n'""", "ok", "not valid JSON"),
        (r"""printf '{"solution": [0,\0]}\n'""", "ok", "not valid JSON"),
        (
            """printf '{"solution": '; head -c 100000 /dev/zero | tr '\\0' '['; echo""",
            "ok",
            "lists, a solution here has",
        ),
        ("""printf '{"solution": '; head -c 3000000 /dev/zero; echo""", "ok", "bytes, a solution here has at most"),
        ("""printf '{"solution": '; head -c 9000000 /dev/zero; echo""", "ok", "a line of more than 4 MiB"),
        ("""yes '{"solution": [0,0,0,0]}'""", "output", "wrote more than 8 MiB"),
        ("""printf '{"bound": 5'; kill -9 $$""", "killed", SIGKILLED),
        ("""printf '{"bound": '; printf '{"bound": 3}\n' >&2; echo '5}'""", "ok", ""),
    ],
)
def test_whatever_else_a_program_prints_its_reports_count(run, script, status, reason):
    row = run(f"{GOOD}; {script}", output_mib=8.0 if script.startswith("yes") else 64.0)
    assert (row.status, row.cost) == (status, 6.0)
    assert re.search(reason, row.reason + row.log)
    assert len(row.log) < 1 << 16


def test_a_flood_of_nonsense_has_few_sentences(run):
    row = run("""yes '{"bound": low}' | head -n 1000; echo '{"solution": [0,0,1,1]}'""", timeout=120.0)
    assert (row.status, row.cost, row.log.count("(referee: ")) == ("ok", 6.0, 11)
    assert row.log.endswith("(referee: 990 more of the messages did not count)\n")


# ---------------------------------------------------------------- its end


def test_output_before_a_failure_counts(run):
    row = run('echo "[0,0,1,1]"; echo "no more memory" >&2; exit 3')
    assert (row.stop, row.status, row.reason, row.cost) == ("crash", "crash", "ended with exit status 3", 6.0)
    assert row.log == "no more memory\n"


@pytest.mark.gate
def test_output_before_the_time_limit_counts(run):
    script = 'echo "[0,0,0,0]"; echo "[0,0,1,1]"; trap "" TERM; sleep 3600'
    row = given_time(lambda limit: run(script, timeout=limit), lambda row: row.incumbents)
    assert (row.status, row.cost) == ("timeout", 6.0)
    assert row.incumbents[0].time_s < row.timeout_s


@pytest.mark.gate
def test_an_unfinished_line_at_the_limit_counts_if_it_is_whole(run):
    row = given_time(lambda limit: run('printf "[0,0,1,1]"; sleep 3600', timeout=limit), lambda row: row.incumbents)
    assert row.cost == 6.0
    assert run('printf "[0,0,1,"; sleep 3600', timeout=1.0).cost is None


@pytest.mark.gate
def test_the_seconds_that_it_gets_are_enough_to_be_in_time(run):
    sleeps = 'sleep "$2"; echo "[0,0,1,1]"'
    row = given_time(lambda limit: run(sleeps, timeout=limit), lambda row: row.status == "ok", 2.0)
    assert (row.status, row.cost) == ("ok", 6.0)


@pytest.mark.gate
def test_a_flood_of_lines_is_cut_and_earlier_answers_count(run):
    row = run('echo "[0,0,1,1]"; yes nonsense', output_mib=8.0)
    assert (row.status, row.cost) == ("output", 6.0)
    assert len(row.log) <= 1 << 16


@pytest.mark.gate
def test_a_flood_of_answers_leaves_the_last(run):
    row = run('yes "[0,0,0,0]" | head -n 80000; echo "[0,0,1,1]"', timeout=120.0)
    assert (row.status, row.cost, len(row.incumbents)) == ("ok", 6.0, 1)


def test_a_line_without_an_end_is_cut(run):
    row = run('echo "[0,0,1,1]"; printf "["; yes "0," | tr -d "\\n"', output_mib=16.0)
    assert (row.status, row.cost) == ("output", 6.0)


def test_a_line_far_longer_than_any_solution_is_a_fault(run):
    row = run('printf "["; yes "0, " | head -n 1000000 | tr -d "\\n"; echo "0]"', timeout=120.0)
    assert row.status == "error"
    assert "a solution here has at most" in row.reason
    row = run('printf "["; yes "0, " | head -n 3000000 | tr -d "\\n"; echo "0]"; echo "[0,0,1,1]"', timeout=120.0)
    assert (row.status, row.cost) == ("ok", 6.0)
    assert row.log.endswith("(referee: printed a line of more than 4 MiB, the limit for a solution)\n")


def test_a_long_line_of_log_is_no_fault(run):
    row = run('yes "working " | head -n 800000 | tr "\\n" "\\r"; echo; echo "[0,0,1,1]"', timeout=120.0)
    assert (row.status, row.reason, row.cost) == ("ok", "", 6.0)


def test_leftovers_of_a_run_do_not_affect_the_next(run):
    run('(trap "" TERM HUP; sleep 3600; echo "[0,0,0,0]") & echo "[0,0,1,1]"')
    row = run('echo "[0,0,0,0]"')
    assert (row.status, row.cost) == ("ok", 10.0)


# ---------------------------------------------------------------- on the command line


def shardmark(capsys, *arguments, status=0):
    assert main([*map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_a_command_solves(contest_solver, capsys, tmp_path):
    solution = tmp_path / "solution.json"

    def within(limit):  # all of which it takes
        command = ["solve", "diamond", "--command", contest_solver, "--timeout", limit, "--output", solution, "--json"]
        main([*map(str, command)])
        return json.loads(capsys.readouterr().out)

    found = given_time(within, lambda found: found["cost"] == 137, 2.0)
    assert (found["solver"], found["status"], found["cost"], found["gap"]) == ("contest-solver", "ok", 137, 0.0)
    assert shardmark(capsys, "check", "diamond", solution)["cost"] == 137


@pytest.mark.gate
def test_programs_are_in_the_scored_table_of_a_campaign(contest_solver, capsys, tmp_path):
    entry = '[[solver]]\nname = "{}"\ntrack = "intraop"\ncommand = "{}"\nsource = "x"\ndescription = "Search."\n'
    programs, results = tmp_path / "programs.toml", tmp_path / "results"
    shutil.copy(contest_solver, tmp_path / "team7")
    programs.write_text(entry.format("team-7", "./team7") + entry.format("gone", "./gone"))
    which = ["--instance", "triangle", "--instance", "diamond", "--instance", "chain", "--solver-path", programs]
    who = ["--solver", "team-7", "--solver", "gone", "--solver", "random-1", "--command", "sh -c 'echo [1,1,1]'"]
    limits = ["--timeout", "10", "--results", results, "--quiet"]
    done = shardmark(capsys, "run", *which, *who, *limits, status=3)
    assert (done["runs"], done["started"]) == (8, 8)
    assert shardmark(capsys, "run", *which, *who, *limits, status=3)["started"] == 0
    rows = {(row["instance"], row["solver"]): row for row in shardmark(capsys, "results", "--results", results)}
    assert rows["triangle", "team-7"]["cost"] == 6
    assert rows["triangle", "team-7"]["status"] == "ok"
    assert rows["triangle", "team-7"]["score"] == rows["diamond", "team-7"]["score"] == 1.0
    assert rows["diamond", "sh"]["status"] == "infeasible"
    assert rows["triangle", "gone"]["status"] == "import"
    assert "there is no program" in rows["triangle", "gone"]["reason"]
    (tmp_path / "team7").write_text("#!/bin/sh\necho '[1,1,1]'\n")
    assert shardmark(capsys, "run", *which, *who, *limits, status=3)["started"] == 2  # a changed program is new


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["solve", "chain", "--command", "./nowhere"], "expected a program that can be started, there is no program"),
        (["run", "--instance", "chain", "--command", "./nowhere"], "expected a program that can be started"),
        (
            ["run", "--instance", "chain", "--command", "echo", "--command", "echo"],
            "a name that is unused in pipeline",
        ),
    ],
)
def test_an_invalid_command_is_a_sentence(capsys, arguments, expected):
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_a_solver_or_a_command_is_needed(capsys):
    for arguments in (["solve", "chain"], ["solve", "chain", "--solver", "exact", "--command", "echo"]):
        assert main(arguments) == 2
    assert "not allowed with argument" in capsys.readouterr().err
