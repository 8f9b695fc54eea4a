# SPDX-License-Identifier: Apache-2.0
"""The benchmark of pools: one load of both sides, and its figures of made-up samples."""

import argparse

import pytest
import thread_pool

OPTIONS = argparse.Namespace(library="openblas", size=16, tvm_size=16, threads=1, rounds=2)


@pytest.mark.slow("the benchmark's whole way")
def test_both_sides_run_a_mixed_load(monkeypatch):
    monkeypatch.setattr(thread_pool, "LOADS", ("mixed",))
    found = thread_pool.measure(OPTIONS)
    assert list(found) == ["one", "own"]
    assert all(len(loads["mixed"]) == 2 and min(loads["mixed"]) > 0 for loads in found.values())


def test_a_side_that_fails_is_said(monkeypatch, capfd):
    monkeypatch.setattr(thread_pool, "LOADS", ("mixed",))
    monkeypatch.setattr(thread_pool, "SIDES", {"openblas": {"one": (False, {"PATH": "\0"})}})
    assert thread_pool.main(["--library", "openblas", "--rounds", "1"]) == 1
    assert "one/mixed: run_failed: open: ValueError" in capfd.readouterr().err


def test_ratios_are_of_rounds():
    rounds = (1.0, 2.0, 1.0, 2.0, 1.0, 2.0)
    one = {load: tuple(1e-3 * each for each in rounds) for load in ("tvm", "library")}
    one["mixed"] = tuple(3e-3 * each for each in rounds)
    own = {**one, "mixed": tuple(12e-3 * each for each in rounds)}
    text = thread_pool.report({"one": one, "own": own}, OPTIONS)
    assert "products by openblas, 1 threads" in text
    figures = [" ".join(line.split()) for line in text.splitlines()[2:]]
    assert figures == [
        "one 4.50 1.50 1.50 1.50 [1.50, 1.50] 1.00 [1.00, 1.00]",
        "own 18.00 1.50 1.50 6.00 [6.00, 6.00] 4.00 [4.00, 4.00]",
    ]


@pytest.mark.parametrize("library", thread_pool.MAKERS)
def test_every_library_has_a_side_that_shares_the_pool(library):
    shared = {side: shares for side, (shares, _) in thread_pool.SIDES[library].items()}
    assert shared.pop("one") and not any(shared.values()) and shared
