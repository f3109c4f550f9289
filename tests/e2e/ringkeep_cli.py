"""Runs the program as a user does."""

import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("RINGKEEP", str(ROOT / "build/release/bin/ringkeep"))


def run(*arguments, stdin=b"", timeout=300):
    """The finished process, whatever its exit code; death by a signal fails the test."""
    result = subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True,
                            timeout=timeout)
    assert result.returncode >= 0, (
        f"ringkeep {arguments} died of signal {-result.returncode}: {result.stderr[-2000:]!r}")
    return result


def ok(*arguments, **options):
    """Standard output (bytes) of a run that must succeed."""
    result = run(*arguments, **options)
    assert result.returncode == 0, (
        f"ringkeep {arguments}: exit {result.returncode}: {result.stderr.decode()[-2000:]}")
    return result.stdout


def ok_json(*arguments, **options):
    return json.loads(ok(*arguments, "--json", **options))


def fails(code, *arguments, mentions=(), **options):
    """A run that must end with `code` and one error line that names each of `mentions`."""
    result = run(*arguments, **options)
    stderr = result.stderr.decode()
    assert result.returncode == code, f"exit {result.returncode}, expected {code}: {stderr}"
    errors = [line for line in stderr.splitlines() if "error:" in line]
    assert len(errors) == 1, f"expected one error line, found {errors or stderr!r}"
    for words in mentions:
        assert str(words) in stderr, f"the error does not name {words!r}: {stderr}"
    return stderr


def logits(model, tokens, folder, *flags, **options):
    """[tokens, vocab] float32 of given ids (or of the rows that --positions names)."""
    ids, out = pathlib.Path(folder) / "ids.txt", pathlib.Path(folder) / "logits.npy"
    ids.write_text(",".join(map(str, tokens)))
    ok("logits", model, "--tokens-file", ids, "-o", out, *flags, **options)
    result = np.load(out)
    out.unlink()
    assert result.dtype == np.float32
    return result


def worst_error(found, expected):
    """Largest |difference| at any position, in units of that position's spread over the vocabulary."""
    assert found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}"
    return (np.abs(found - expected).max(axis=1) / expected.std(axis=1)).max()
