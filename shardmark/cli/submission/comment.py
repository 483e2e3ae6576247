"""Comment on a pull request with the summary of its review, as the workflow ``submission-summary`` does.

``python3 -m shardmark.cli.submission.comment`` needs the standard library and GitHub's program ``gh``. It runs nothing
of the pull request, and trusts nothing that the review left: the summary is read from the artifact in memory, and must
fit `summary.read`; the number of the pull request and its files come from GitHub. A pull request that changes the
workflows may have run a review of its own, so its summary is not shown.

These variables describe the run of the workflow ``submission``: RUN_ID, HEAD_SHA, HEAD_BRANCH and HEAD_REPOSITORY;
GITHUB_REPOSITORY is this project.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
import zlib
from typing import Any

from shardmark.cli.submission.markdown import markdown
from shardmark.cli.submission.summary import MOST_BYTES, InvalidSummaryError, read

MARK = "<!-- shardmark review -->"
BOT = "github-actions[bot]"
#: Those of GitHub's artifacts, which are unpacked no further than they are read; bzip2 makes gigabytes of a kilobyte.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ARTIFACT, FILE = "review", "summary.json"
PAGE = 100  # elements per request, GitHub's maximum
MOST_PAGES = 30
MOST_FILES = 300  # GitHub lists no more files of a comparison

OF_WORKFLOWS = "### Review: by hand\n\nThis pull request changes the project's workflows: a maintainer has to look.\n"
NO_SUMMARY = "### Review: no result\n\nThe review left no valid summary; its log says how it ended.\n"


def main() -> int:
    """Post or update the comment; return the exit status."""
    project, run, head = (os.environ[name] for name in ("GITHUB_REPOSITORY", "RUN_ID", "HEAD_SHA"))
    pull = pull_request(project, head)
    if pull is None:
        print("No open pull request ends with the commit that was reviewed: nothing to comment on.")
        return 0
    if changes_workflows(project, pull["base"]["sha"], head):
        text = OF_WORKFLOWS
    else:
        try:
            text = markdown(summary(project, run, head))
        except InvalidSummaryError as error:
            print(f"The summary is not valid: {error}", file=sys.stderr)
            text = NO_SUMMARY
    link = f"[Log and details](https://github.com/{project}/actions/runs/{int(run)})"
    post(project, int(pull["number"]), f"{MARK}\n{text}\n{link}\n")
    return 0


def pull_request(project: str, head: str) -> Any:
    """Return the open pull request whose last commit was reviewed, as GitHub describes it; None if there is none."""
    repository, branch = os.environ["HEAD_REPOSITORY"], os.environ["HEAD_BRANCH"]
    label = f"{repository.partition('/')[0]}:{branch}"
    for pull in _get(f"repos/{project}/pulls", state="open", head=label, per_page=str(PAGE)):
        if pull["head"]["sha"] == head and (pull["head"]["repo"] or {}).get("full_name") == repository:
            return pull
    return None


def changes_workflows(project: str, base: str, head: str) -> bool:
    """Return True if a pull request changes what GitHub runs, or so many files that GitHub does not list all."""
    files = _get(f"repos/{project}/compare/{base}...{head}")["files"]
    names = [name for file in files for name in (file["filename"], file.get("previous_filename", ""))]
    return len(files) >= MOST_FILES or any(name.startswith(".github/") for name in names)


def summary(project: str, run: str, head: str) -> dict[str, Any]:
    """Return the summary that a run left; InvalidSummaryError without a valid one of the commit ``head``."""
    found = _get(f"repos/{project}/actions/runs/{int(run)}/artifacts", name=ARTIFACT)["artifacts"]
    if not found:
        raise InvalidSummaryError("expected an artifact of the run")
    artifact = max(found, key=lambda artifact: int(artifact["id"]))  # of the newest attempt
    if artifact["size_in_bytes"] > MOST_BYTES:
        raise InvalidSummaryError(f"expected an artifact of at most {MOST_BYTES} bytes")
    read_out = read(_member(_gh(f"repos/{project}/actions/artifacts/{int(artifact['id'])}/zip")))
    if read_out["head"] != head:
        raise InvalidSummaryError("expected the summary of the commit that was reviewed")
    return read_out


def _member(content: bytes) -> bytes:
    """Return the file of the summary in an archive; nothing is unpacked to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(FILE) as file:
            if archive.getinfo(FILE).compress_type not in COMPRESSIONS:
                raise ValueError
            return file.read(MOST_BYTES + 1)
    except (KeyError, OSError, RuntimeError, NotImplementedError, ValueError, EOFError, zlib.error, zipfile.BadZipFile):
        raise InvalidSummaryError(f"expected an archive with {FILE}") from None


def post(project: str, number: int, body: str) -> None:
    """Write the comment of an earlier review again, or a new one."""
    for page in range(1, MOST_PAGES + 1):
        comments = _get(f"repos/{project}/issues/{number}/comments", per_page=str(PAGE), page=str(page))
        for comment in comments:
            if (comment["user"] or {}).get("login") == BOT and comment["body"].startswith(MARK):
                _gh(f"repos/{project}/issues/comments/{int(comment['id'])}", "--method", "PATCH", given={"body": body})
                return
        if len(comments) < PAGE:
            break
    _gh(f"repos/{project}/issues/{number}/comments", "--method", "POST", given={"body": body})


def _get(address: str, **fields: str) -> Any:
    words = [word for name, value in fields.items() for word in ("--raw-field", f"{name}={value}")]
    return json.loads(_gh(address, "--method", "GET", *words))


def _gh(address: str, *words: str, given: Any = None) -> bytes:
    """Return what GitHub answers to a request; its program says what went wrong."""
    told = [] if given is None else ["--input", "-"]
    content = None if given is None else json.dumps(given).encode()
    return subprocess.run(
        ["gh", "api", address, *words, *told], input=content, check=True, stdout=subprocess.PIPE
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
