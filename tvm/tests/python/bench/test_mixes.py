# SPDX-License-Identifier: Apache-2.0
"""bench/zoo.py at the depths minutes and hours: columns, what the judge says of rounds that were
made up, the tables, and a small net through all of it."""

import contextlib
import json
import math
import types

import models
import pytest
import zoo
from bench_nets import small_classifier
from summaries import mixes
from trials import columns
from trials.judge import Column, Shipped, compared, judge
from trials.trial import PEERS
from tuning_nets import TARGET, conv, dense, some_lines
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.tuning import load_records, records_in_force

BACKENDS = ["dnnl", "cblas", "openvino"]


def test_a_column_has_one_backend_more_and_own_kernels_are_one():
    found = columns.targets_of_columns(BACKENDS)
    assert list(found) == ["tvm", "+dnnl", "+winograd", "+cblas", "+openvino"]
    assert found["tvm"] == [] and found["+dnnl"] == ["dnnl -winograd=never"]
    assert found["+winograd"] == ["dnnl"] and found["+openvino"] == BACKENDS
    assert list(columns.targets_of_columns(["cblas"])) == ["tvm", "+cblas"]


def rounds(name, even, odd, count=20):
    """A contestant that takes `even` seconds in rounds 0, 2, 4 and `odd` in the others."""
    wave = [1 + 0.001 * (k % 3) for k in range(count)]
    samples = tuple((odd if k % 2 else even) * wave[k] for k in range(count))
    return Comparison(name, Cost.measured(samples), samples=samples)


FIRST = Column("tvm", ["tvm"], ["tvm"], None)
LAST = Column("+dnnl", ["tvm", "dnnl", "mix"], ["tvm", "dnnl"], "mix")


def judged(*items, ships="mix", graph_level=None):
    names = [item.name for item in items]
    peers = [name for name in names if name == "peer"]
    shipped = Shipped(ships, ships == "tvm", False)
    return judge(list(items), [FIRST, LAST], peers, shipped, graph_level)


def test_each_column_ships_its_fastest_and_ratios_are_to_the_best_single():
    found = judged(
        *(rounds(n, s, s) for n, s in [("tvm", 4), ("dnnl", 2), ("mix", 1), ("peer", 3)])
    )
    assert found["best_single"] == "dnnl" and found["fastest_peer"] == "peer"
    assert [column["plan"] for column in found["columns"]] == ["tvm", "mix"]
    first, last = (column["over_single"] for column in found["columns"])
    assert first == pytest.approx([0.5] * 3, rel=0.01)
    assert last == pytest.approx([2.0] * 3, rel=0.01)
    assert found["shipped"]["over_peer"] == pytest.approx([3.0] * 3, rel=0.01)
    assert not found["shipped"]["is_single"] and found["columns"][0]["is_single"]
    ratios = [f"over_{base}" for base in ("single", "without_own_kernels", "peer")]
    assert found["graph_level"] == {**dict.fromkeys(["plan", *ratios]), "is_single": False}
    json.dumps(found, allow_nan=False)


def test_whoever_is_part_of_a_ratio_of_what_ships_has_all_rounds():
    """A net whose plan is far slower than a peer would have no interval, and count in no mean."""
    found = compared([FIRST, LAST], ["peer"], Shipped("mix", False, False))
    assert set(found) == {"tvm", "dnnl", "mix", "peer"}
    far = judged(*(rounds(n, s, s) for n, s in [("tvm", 4), ("dnnl", 3), ("mix", 3), ("peer", 1)]))
    assert far["shipped"]["over_peer"] == pytest.approx([1 / 3] * 3, rel=0.01)
    text = mixes.tables([made("net", [1.0, 1.0, 1.0], far["shipped"]["over_peer"])])
    assert cells(text, "all", "1", "the faster library")[:4] == ["1", "0.333", "0", "1"]


def test_own_kernels_inside_a_backend_are_a_backend_of_their_own():
    items = [rounds(n, s, s) for n, s in [("tvm", 4), ("dnnl", 2), ("own", 1)]]
    first = Column("+dnnl", ["tvm", "dnnl"], ["tvm", "dnnl"], None)
    last = Column("+own", ["tvm", "own"], ["tvm", "own"], None, {"own"})
    found = judge(items, [FIRST, first, last], [], Shipped("own", True, True), None)
    assert (found["best_single"], found["best_without_own_kernels"]) == ("own", "dnnl")
    assert found["shipped"]["over_single"] == pytest.approx([1.0] * 3)
    assert found["shipped"]["over_without_own_kernels"] == pytest.approx([2.0] * 3, rel=0.01)


def test_a_backend_alone_that_no_column_has_is_no_mix():
    """The guard's own search may have chosen another kernel than the columns'."""
    items = [rounds(n, s, s) for n, s in [("tvm", 4), ("dnnl of +dnnl", 2), ("dnnl", 1)]]
    column = Column("+dnnl", ["tvm", "dnnl of +dnnl"], ["tvm", "dnnl of +dnnl"], None)
    for has_own, without in ((False, "dnnl"), (True, "dnnl of +dnnl")):
        found = judge(items, [FIRST, column], [], Shipped("dnnl", True, has_own), None)
        assert found["shipped"]["is_single"] and found["best_single"] == "dnnl"
        assert found["best_without_own_kernels"] == without
    assert not judge(items, [FIRST, column], [], Shipped("dnnl", False, False), None)["shipped"][
        "is_single"
    ]


def test_the_rounds_that_choose_are_not_those_that_tell():
    """A plan whose luck fell into the rounds that choose is told by the others."""
    found = judged(rounds("tvm", 4, 4), rounds("dnnl", 2, 2), rounds("mix", 1, 3))
    assert found["columns"][1]["plan"] == "mix"
    assert found["columns"][1]["over_single"][0] == pytest.approx(2 / 3, rel=0.01)


def test_a_simpler_plan_ships_within_the_guard_s_margin():
    found = judged(rounds("tvm", 4, 4), rounds("dnnl", 1.001, 1.001), rounds("mix", 1, 1))
    assert found["columns"][1]["plan"] == "dnnl"


def test_who_fails_or_leaves_at_once_is_nobody_s_choice():
    failed = Comparison("mix", Cost.failed("crashed", "signal 11"))
    gone = rounds("dnnl", 1, 1, count=1)
    found = judged(rounds("tvm", 4, 4), failed, gone, ships="tvm", graph_level="graph-1")
    assert found["best_single"] == "tvm" and found["fastest_peer"] is None
    assert [column["plan"] for column in found["columns"]] == ["tvm", "tvm"]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["mix"]["status"] == "crashed" and "far slower" in rows["dnnl"]["message"]
    nothing = judged(failed, ships="mix")
    assert [column["plan"] for column in nothing["columns"]] == [None, None]


def made(net, single, peer, *, is_single=False, **changes):
    """A record with these ratios of what ships."""
    row = {"plan": "mix", "is_single": is_single, "over_single": single, "over_peer": peer}
    row |= {"over_without_own_kernels": single and [2 * each for each in single]}
    nothing = {**row, "plan": None, "over_single": None}
    record = {
        "net": net, "size": 0, "batch": 1, "from": mixes.ZOO, "failure": None, "date": "2026-11-24",
        "conditions": {
            "machine": {"cpu": "Zen", "cores": 2}, "threads": 2, "rounds": 20, "backends": BACKENDS,
            "collage": [["graph_search", "local"]], "commit": "0123456789ab",
        },
        "phases": {"prepare": 1.0, "partition": 30.0, "guard": 9.0}, "candidates": 50, "asked": 40,
        "ships": "collage", "own_kernels": 0,
        "placement": [
            {"backend": "dnnl", "parts": 2, "operators": 5},
            {"backend": "tvm", "parts": None, "operators": 1},
        ],
        "columns": [{**row, "name": "tvm", "over_single": [0.5, 0.0, None]}],
        "op_level": row, "graph_level": nothing, "shipped": row,
        "best_single": "dnnl of +dnnl", "best_without_own_kernels": "openvino",
        "fastest_peer": "openvino",
        "rows": [{"name": "mix", "seconds": 2e-3, "status": "measured", "noisy": False}],
        "columns_spent": [{"name": "tvm", "seconds": 2.0, "new": 3}], "not_built": {},
    }  # fmt: skip
    return {**record, **changes}


def test_means_have_the_interval_of_their_ratios():
    value, low, high, count = mixes.mean([[2.0, 1.0, 4.0], [0.5, 0.25, 1.0], [9.0, 8.0, None]])
    assert (value, count) == (pytest.approx(1.0), 2)
    # Each is known to a factor of 2, and the mean of two to its square root.
    assert high == pytest.approx(math.exp(math.log(2) / math.sqrt(2))) and low * high == value
    assert mixes.mean([[9.0, 8.0, None]]) is None


def cells(text, *first):
    """The cells of the first row that begins so."""
    head = "| " + " | ".join(first) + " |"
    line = next(line for line in text.splitlines() if line.startswith(head))
    return line.strip("| ").split(" | ")[len(first) :]


def test_the_tables_say_what_the_records_say():
    own = made("own", [1.0, 1.0, 1.0], [1.0, 0.9, 1.1], is_single=True, own_kernels=3)
    broken = {"failure": {"stage": "import", "message": "no such operator"}, "rows": []}
    mixed = made("mixed", [1.2, 1.1, 1.3], [0.8, 0.7, 0.9])
    text = mixes.tables([mixed, own, made("bad", None, None, **broken)])
    for source in ("all", "zoo"):
        count, mean, lows, slower, a_mix, or_own = cells(
            text, source, "1", "the best single backend"
        )
        assert mean.startswith("1.095 [") and (count, lows, slower) == ("2", "2", "0")
        assert (a_mix, or_own) == ("1", "2")
        assert cells(text, source, "1", "the faster library")[2:4] == ["0", "1"]
        without = "the best single backend without own kernels"
        assert cells(text, source, "1", without)[1].startswith("2.191")
    assert cells(text, "mixed", "1") == [
        *("2", "collage", "dnnl 5, tvm 1", "", "1.20 [1.10, 1.30]", "2.40 [2.20, 2.60]"),
        *("0.80 [0.70, 0.90]", "31", "40 of 50"),
    ]
    assert cells(text, "own", "1")[3:5] == ["3", "1.00"]
    assert "| **geometric mean** |  | **0.500** | **1.095** | - | **1.095** |" in text
    assert "Zen, 2 CPUs; 2026-11-24. Ended early: bad at import." in text
    noisy = [{"name": "mix", "seconds": 2e-3, "status": "measured", "noisy": True}]
    assert cells(mixes.tables([made("net", [1, 1, 1], None, rows=noisy)]), "net", "1")[0] == (
        "2 (noisy)"
    )
    # With rounds too few for an upper end.
    text = mixes.tables([made("own", [1.0, 1.0, 1.0], [1.0, 0.9, None], is_single=True)])
    assert "| 1.00 (too few rounds to be sure) |" in text


def test_a_net_that_somebody_named_has_its_row_and_counts_in_no_mean():
    named = made("net", [9.0, 9.0, 9.0], [9.0, 9.0, 9.0], **{"from": mixes.NAMED})
    text = mixes.tables([named, made("own", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])])
    assert cells(text, "net", "1")[4] == "9.00"
    assert cells(text, "all", "1", "the best single backend")[:2] == ["1", "1.000"]
    assert "| named | 1 |" not in text


def test_one_line_says_what_ships():
    line = mixes.summary_of({**made("net", [1.2, 1.1, 1.3], None), "seconds": 9.0})
    assert line == ("ships collage; a mix; 1.20 times as fast as the best single backend; 9 s")
    fault = {"stage": "import", "message": "no such operator"}
    assert mixes.summary_of({"failure": fault}) == "import: no such operator"


def test_records_that_were_given_have_columns_behind_tvm():
    record = made("mixed", [1.2, 1.1, 1.3], [0.8, 0.7, 0.9])
    [tvm] = record["columns"]
    tuned = {**tvm, "name": "tvm-tuned", "over_single": [0.75, 0.7, 0.8]}
    mix = {**tvm, "name": "+tvm-tuned", "over_single": [1.25, 1.2, 1.3]}
    text = mixes.columns([{**record, "columns": [tuned, mix, tvm]}])
    assert "| net | batch | tvm | tvm-tuned | +tvm-tuned |" in text
    assert "| mixed | 1 | 0.50 | 0.75 | 1.25 | 1.20 | - | 1.20 |" in text


@pytest.fixture
def asked(monkeypatch):
    """Which records are in force where a column's plans are looked for; nothing is measured."""
    found = []
    session = types.SimpleNamespace(estimator=types.SimpleNamespace(misses=0))
    monkeypatch.setattr(columns, "open_session", lambda *_: contextlib.nullcontext(session))
    monkeypatch.setattr(
        columns,
        "_plans_of",
        lambda prepared, external, session: found.append(
            (external, bool(records_in_force(TARGET)[0]))
        ),
    )
    monkeypatch.setattr(columns.collage, "host_target", lambda: TARGET)
    return found


def test_a_log_s_columns_have_its_records_and_one_without_any_for_the_net_has_none(asked, tmp_path):
    log, other = tmp_path / "dense.log", tmp_path / "conv.log"
    log.write_text("\n".join(some_lines("autotvm", dense(), 1)))
    other.write_text("\n".join(some_lines("autotvm", conv(), 1)))
    logs = {"tvm-tuned": str(log), "tvm-transferred": str(other)}
    wanted = columns.wanted_columns(dense(), ["cblas"], logs)
    found = list(columns.column_plans(dense(), ["cblas"], wanted))
    assert [each.name for each in found] == ["tvm-tuned", "+tvm-tuned", "tvm", "+cblas"]
    assert asked == [([], True), (["cblas"], True), ([], False), (["cblas"], False)]


def test_a_plan_with_records_is_built_with_them_and_is_no_backend_alone(tmp_path):
    log = tmp_path / "dense.log"
    log.write_text("\n".join(some_lines("autotvm", dense(), 1)))
    records = load_records([log], TARGET)
    libraries = columns.Libraries(tmp_path)
    plans = types.SimpleNamespace(modules={"tvm": dense()}, kernels_of=lambda plan: (), failed={})
    plain = libraries.column(columns.Found("tvm", plans, 0.0, 0))
    tuned = libraries.column(columns.Found("tvm-tuned", plans, 0.0, 0, records))
    assert (plain.plans, plain.singles) == (["tvm of tvm"], ["tvm of tvm"])
    assert (tuned.plans, tuned.singles) == (["tvm of tvm-tuned"], [])
    # A plan that ships with the same records is the column's.
    assert libraries.add("ships", dense(), records) == "tvm of tvm-tuned"
    assert libraries.failed == {}
    plans.failed = {"collage-coarse": Cost.failed("compile_failed", "no such part")}
    libraries.column(columns.Found("tvm", plans, 0.0, 0))
    assert libraries.failed == {"collage-coarse of tvm": "compile_failed: no such part"}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(models.NETS, "small", models.Net("small", "a net", small_classifier, ""))


@pytest.mark.slow("a net searched for each column, built and measured")
def test_a_small_net_through_all_of_it(small, tmp_path, monkeypatch):
    coarse = []
    monkeypatch.setattr(columns, "coarse_plans", lambda replans: coarse.append(list(replans)) or {})
    request = {"net": "small", "size": 0, "batch": 1, "file": None, "threads": 1, "rounds": 12}
    request |= {"folder": str(tmp_path), "backends": ["dnnl"], "rtol": 1e-3}
    request |= {"logs": {}}
    config = {"measure_seconds": 0.01, "guard_rounds": 6, "guard_seconds": 0.1}
    config |= {"graph_search": "local", "graph_search_trials": 3, "graph_search_population": 2}
    request |= {"config": config}
    found = {}
    for facts in columns.trial(request):
        found |= facts
    assert found["not_built"] == {} and found["asked"] > 0
    assert [column["name"] for column in found["columns"]] == ["tvm", "+dnnl", "+winograd"]
    assert all(column["plan"] for column in found["columns"])
    assert coarse == [["main"]] * 2, "the guard's plans of fewer parts are the columns' too"
    assert found["shipped"]["plan"] and found["fastest_peer"] in PEERS
    # Its best plan is often that of a column, whose figure it then has.
    assert found["graph_level"]["plan"] and found["graph_level"]["over_single"]
    new = {each["name"]: each["new"] for each in found["columns_spent"]}
    assert new["tvm"] == new["+winograd"] == 0  # all in the store, or nothing to ask
    whole = {"net": "small", "size": 0, "batch": 1, "from": mixes.MODELS, "failure": None}
    conditions = made("small", None, None)["conditions"]
    record = {**whole, "date": "2026-11-24", "conditions": conditions, **found}
    assert "| small | 1 |" in mixes.tables([record])
    assert zoo.table(record) and mixes.summary_of({**record, "seconds": 1.0})
