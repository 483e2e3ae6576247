"""Certificates of lower bounds on the command line: written by `solve` and `bound`, checked by `check`."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from shardmark import api
from shardmark.cli.options import Answer
from shardmark.cli.output import kept, tell, write_document
from shardmark.instances import InputError

if TYPE_CHECKING:
    from shardmark.harness.verify.certificates import Finding
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
    about = {"lower_bound": found.claimed, "proven": found.holds, "checked_bound": _bound_of(found)}
    return int(not found.holds), about


def write_certificate(instance: Any, found: RunResult, options: argparse.Namespace, answer: dict[str, Any]) -> None:
    """Write the certificate that the command line asks for, and add to the answer what it proves."""
    if options.certificate is None:
        return
    if found.certificate is None:
        tell(f"shardmark: {found.method} wrote no certificate of a lower bound")
        answer["checked_bound"] = None
        return
    checked = api.check_certificate(instance, found.certificate)
    certificate = dict(found.certificate)
    answer["checked_bound"] = _bound_of(checked)
    if checked.reason:
        tell(f"shardmark: the certificate: {checked.reason}")
        if checked.proven is not None:
            certificate["bound"] = _bound_of(checked)
    with kept(answer):
        write_document(options.certificate, certificate, "the certificate")


def _bound_of(checked: Finding) -> int | float | None:
    """Return the greatest bound that a certificate proves: an int if it is whole, else rounded down to float64."""
    from shardmark.harness.verify.certificates import rounded_down

    if checked.proven is None:
        return None
    return int(checked.proven) if checked.proven.denominator == 1 else rounded_down(checked.proven)
