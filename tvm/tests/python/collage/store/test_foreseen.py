# SPDX-License-Identifier: Apache-2.0
"""Costs that were measured beside profiles: they come back by their key, and once."""

import pytest
from store_files import make_older
from tvm.relay.collage.store import CostStore, Environment, ForeseenCosts, ForeseenKey
from tvm.relay.collage.store.foreseen import MOST_PAIRS

HERE = Environment("cpu", "a CPU", "2", "0.19", "3")
KEY = ForeseenKey("dnnl", "1", "llvm", HERE)
OTHERS = [KEY._replace(**{part: "other"}) for part in ("backend", "backend_version", "target")]
OTHERS += [KEY._replace(here=HERE._replace(**{part: "other"})) for part in HERE._fields]


@pytest.fixture
def store(tmp_path):
    with CostStore(tmp_path / "costs.sqlite") as store:
        yield store


def test_pairs_come_back_in_another_connection_each_once(store):
    assert ForeseenCosts(store).add(KEY, [(1e-6, 2e-6), (3e-6, 4e-6)]) == 2
    assert ForeseenCosts(store).add(KEY, [(1e-6, 2e-6), (1e-6, 5e-6)]) == 1
    with CostStore(store.path) as other:
        found = ForeseenCosts(other).pairs(KEY)
    assert sorted(found) == [(1e-6, 2e-6), (1e-6, 5e-6), (3e-6, 4e-6)]
    assert store.problems() == []


def test_a_key_has_at_most_so_many(store):
    many = [(float(number), 1.0) for number in range(MOST_PAIRS + 7)]
    assert ForeseenCosts(store).add(KEY, many[:-10]) == MOST_PAIRS - 3
    assert ForeseenCosts(store).add(KEY, many[-10:]) == 3
    assert ForeseenCosts(store).add(KEY, many[-5:]) == 0
    assert ForeseenCosts(store).add(OTHERS[0], many[-5:]) == 5


@pytest.mark.parametrize("other", OTHERS)
def test_each_part_of_the_key_counts(store, other):
    ForeseenCosts(store).add(KEY, [(1e-6, 2e-6)])
    assert ForeseenCosts(store).pairs(other) == []


def test_an_older_file_gets_the_table(tmp_path):
    file = tmp_path / "old.sqlite"
    make_older(file, 6)
    with CostStore(file) as store:
        assert ForeseenCosts(store).add(KEY, [(1e-6, 2e-6)]) == 1
