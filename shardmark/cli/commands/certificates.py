"""Certificates of lower bounds on the command line: written by `solve` and `bound`, checked by `check`."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from shardmark import api
from shardmark.cli.options import Answer
from shardmark.cli.output import kept, tell, write_document
from shardmark.harness.results.grades import CHECKED, CLAIMED
from shardmark.instances import InputError

if TYPE_CHECKING:
    from shardmark.outcomes import RunResult

#: Ending of a certificate's file.
CERTIFICATE = re.compile(r"\.cert\.json(\.gz)?$")


def check_certificate(instance: Any, options: argparse.Namespace) -> Answer:
    """Check the certificate that stands in the place of a solution."""
    if options.method:
        raise InputError("check", "--method", "expected only with a solution: a certificate is its own proof")
    found = api.check_certificate(instance, options.solution)
    if found.reason:
        tell(f"shardmark: {options.solution}: {found.reason}")
    return int(not found.holds), {
        "lower_bound": found.claimed,
        "proven": found.holds,
        "checked_bound": found.proven_number,
        "grade": CHECKED if found.holds else CLAIMED,
    }


def write_certificate(found: RunResult, options: argparse.Namespace, answer: dict[str, Any]) -> None:
    """Write the certificate that the command line asks for, and add to the answer what it proves."""
    if options.certificate is None:
        return
    if found.certificate is None:
        tell(f"shardmark: {found.method} wrote no certificate of a lower bound")
        answer["checked_bound"] = None
        return
    certificate = {**found.certificate}
    answer["checked_bound"] = found.checked_bound
    if found.checked_bound is not None and found.checked_bound < certificate["bound"]:
        certificate["bound"] = found.checked_bound
    with kept(answer):
        write_document(options.certificate, certificate, "the certificate")
