# SPDX-License-Identifier: Apache-2.0
"""Lists of candidates' kernels in the store: what they depend on, and which ones are kept."""

import dataclasses

import pytest
from tvm.relay.collage.costs.options import MeasureOptions
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.measure import CandidateModule
from tvm.relay.collage.store import CostStore, StoredCosts
from tvm.relay.collage.store.key import stored_version
from tvm.relay.collage.store.stored_costs import NEVER
from tvm.relay.collage.tuner.kept_tasks import KeptTasks

CANDIDATE = CandidateModule("tvm", "llvm", "00112233aabbccdd", "{}", label="a candidate")
CONV, DENSE = ({"workload": f'["{name}", 1]', "name": name} for name in ("conv", "dense"))


@pytest.fixture
def costs(tmp_path):
    """A store that a search has opened."""
    stored = StoredCosts(CostStore(tmp_path / "costs.sqlite"), MeasureOptions(), stored_version)
    yield stored
    stored.close()


def kept(costs, *tasks, kind="ansor"):
    return KeptTasks(costs, kind, [task["workload"] for task in tasks])


def test_a_list_has_what_was_asked_for_of_what_the_candidate_has(costs):
    lists = kept(costs, CONV)
    assert lists.look_up([CANDIDATE]) == [None]
    lists.keep(CANDIDATE, Reply("ok", [{**DENSE, "kernel": None}, {**CONV, "kernel": None}]))
    assert kept(costs, CONV).look_up([CANDIDATE]) == [[CONV]]
    lists.keep(CANDIDATE, Reply("ok", []))
    assert lists.look_up([CANDIDATE]) == [[]]


def test_a_list_is_of_one_candidate_way_to_build_kind_and_set_of_kernels(costs):
    kept(costs, CONV, DENSE).keep(CANDIDATE, Reply("ok", [CONV]))
    assert kept(costs, DENSE, CONV).look_up([CANDIDATE]) == [[CONV]]
    assert costs.miss_reasons == {}
    changes = {"hash": "f" * 16}, {"target": "llvm -mcpu=other"}, {"build_options": {"opt": 2}}
    others = [dataclasses.replace(CANDIDATE, **change) for change in changes]
    assert kept(costs, CONV, DENSE).look_up(others) == [None] * 3
    assert costs.miss_reasons == {NEVER: 1, "other target": 1, "other options": 1}
    assert kept(costs, CONV).look_up([CANDIDATE]) == [None]
    assert kept(costs, CONV, DENSE, kind="autotvm").look_up([CANDIDATE]) == [None]
    assert costs.miss_reasons["other options"] == 3


def test_what_cannot_be_listed_is_kept_as_that_unless_the_machine_was_at_fault(costs):
    lists = kept(costs, CONV)
    lists.keep(CANDIDATE, Reply("failed", type="OSError", message="full", fault="disk"))
    lists.keep(CANDIDATE, Reply("lost", message="a device"))
    assert lists.look_up([CANDIDATE]) == [None]
    lists.keep(CANDIDATE, Reply("failed", type="TVMError", message="no such thing"))
    assert lists.look_up([CANDIDATE]) == [[]] and costs.known_failures == 1
