"""Solvers that cheat, as a pull request would hold them, and what a review has to say of each."""

from __future__ import annotations

from typing import NamedTuple

HEAD = '''"""{name}: looks like any other."""

{imports}

from shardmark import solver


@solver(track="pipeline", source="an idea", name="{name}")
def cheats(instance, run):
    """Solve it somehow."""
{body}
'''


class Cheat(NamedTuple):
    """A cheating solver: the body of its function, what it imports, and a pattern of the line that names it."""

    name: str
    body: str
    found: str
    imports: str = "import os"

    def text(self) -> str:
        """The file."""
        body = "\n".join(f"    {line}" for line in self.body.strip().splitlines())
        return HEAD.format(name=self.name, imports=self.imports, body=body)


#: The project's folder, as a run can work it out; what is in it is mostly hidden.
PLACE = "import os, pathlib, shardmark\nROOT = pathlib.Path(shardmark.__file__).parents[1]"

#: A function that gathers what can be found of secrets.
EVERYTHING = (
    PLACE
    + '''


def everything():
    """Whatever can be read of variables, of the home, and of the clone's settings."""
    found = [repr(dict(os.environ))]
    for name in (".netrc", ".git/config", ".gitconfig", "home/.netrc", "clone/.git/config"):
        for folder in (ROOT, pathlib.Path.home(), *ROOT.parents, pathlib.Path("/root"), pathlib.Path("/home/runner")):
            try:
                found.append((folder / name).read_text())
            except OSError:
                pass
    for process in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(process.read_text())
        except OSError:
            pass
    return " ".join(found)'''
)

CHEATS = (
    Cheat("false-cost", "run.report([0] * instance.nodes, cost=0.001)", r"\(misclaim: claimed a lower cost"),
    Cheat("infeasible", "return [0]", r"\(infeasible: "),
    Cheat(
        "false-bound", "run.report([0] * instance.nodes)\nrun.bound(10**9)", r"\(contradiction: claimed a lower bound"
    ),
    Cheat("reads-records", "return (ROOT / 'records' / 'history.jsonl').read_text()", r"\(error: ", PLACE),
    Cheat("reads-results", "return (ROOT / 'results' / 'results.sqlite').read_bytes()", r"\(error: ", PLACE),
    Cheat("calls-home", "socket.create_connection(('127.0.0.1', {port}), 2)", r"\(error: ", "import socket"),
    Cheat(
        "takes-memory",
        "return [len(b'x' * ((3 << 30) * (instance.nodes == 16)))] * instance.nodes",
        r"\((memory|timeout): ",
    ),
    Cheat(
        "reads-secrets",
        "raise RuntimeError(everything())",
        r"\(error: ",
        EVERYTHING,
    ),
    Cheat("steals-at-import", "return FOUND", "can be imported: no", f"{EVERYTHING}\n\n\nFOUND = int(everything())"),
    Cheat(
        "writes-to-the-referee",
        "open(shardmark.harness.verify.__file__, 'a').write('verify = None')",
        r"\(error: ",
        "import shardmark.harness.verify",
    ),
    Cheat(
        "forges-messages",
        'for number in range(3, 64):\n    try:\n        os.write(number, b\'{"kind": "solution", "cost": 0}\' * 9)\n'
        "    except OSError:\n        pass",
        r"\(error: ",
    ),
    Cheat(
        "forges-the-summary",
        "(ROOT / 'review').mkdir()\n(ROOT / 'review' / 'summary.json').write_text('{}')",
        r"\(none: ",
        PLACE,
    ),
    Cheat("kills-the-referee", "os.kill(os.getppid(), 9)\nos.kill(1, 9)\nos._exit(0)", r"\(crash: "),
    Cheat(
        "starts-daemons",
        "while instance.nodes == 16:\n    if os.fork() == 0:\n        time.sleep(60)\nreturn [0] * instance.nodes",
        r"\((processes|timeout): ",
        "import os, time",
    ),
    Cheat(
        "takes-two-cores",
        "if instance.nodes > 1000 and os.fork() == 0:\n    while True:\n        pass\n"
        "while instance.nodes > 1000 and run.remaining() > 0.3:\n    pass\nreturn [0] * instance.nodes",
        "stays on one core: no",
    ),
)
