#!/usr/bin/env python3
"""Adds up the results that scripts/test leaves in a folder and prints 'N passed, N failed'.

PRESET.ctest.xml    JUnit file of ctest, one entry a test program
PRESET/*.json       GoogleTest's own results, one file a program, counted case by case
NAME.pytest.xml     JUnit file of pytest

A program that wrote no results of its own (a fuzz target, or one that crashed) counts as one test.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count_gtest(path):
    """(passed, failed, skipped) of one GoogleTest program."""
    cases = [case for suite in json.loads(path.read_text())["testsuites"] for case in suite["testsuite"]]
    failed = sum(1 for case in cases if case.get("failures"))
    skipped = sum(1 for case in cases if case.get("result") in ("SKIPPED", "SUPPRESSED"))
    return len(cases) - failed - skipped, failed, skipped


def count_junit(path):
    """Yields (name, outcome) of every test case in a JUnit file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            yield case.get("name"), "failed"
        elif case.find("skipped") is not None:
            yield case.get("name"), "skipped"
        else:
            yield case.get("name"), "passed"


def main():
    folder = pathlib.Path(sys.argv[1])
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for file in sorted(folder.glob("*.ctest.xml")):
        programs = folder / file.name.removesuffix(".ctest.xml")
        for name, outcome in count_junit(file):
            own = programs / f"{name}_tests.json"
            passed, failed, skipped = count_gtest(own) if own.exists() else (0, 0, 0)
            if passed + failed + skipped == 0 or (outcome == "failed" and failed == 0):
                total[outcome] += 1  # no results of its own, or a crash after the last case
            total["passed"] += passed
            total["failed"] += failed
            total["skipped"] += skipped
    for file in sorted(folder.glob("*.pytest.xml")):
        for _, outcome in count_junit(file):
            total[outcome] += 1
    text = f"{total['passed']} passed, {total['failed']} failed"
    print(text + (f", {total['skipped']} skipped" if total["skipped"] else ""))
    return 1 if total["failed"] or total["passed"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
