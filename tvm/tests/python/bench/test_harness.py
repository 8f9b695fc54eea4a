# SPDX-License-Identifier: Apache-2.0
"""What benchmarks share: arguments, tables, records in files."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import arguments, records, resume, tables


def test_arguments_have_types_and_defaults():
    parser = arguments.make_parser("What it does.", nets="dcgan", threads=None, rounds=3)
    found = parser.parse_args([])
    assert [net.name for net in found.nets] == ["dcgan"]
    assert found.threads >= 1 and found.rounds == 3
    given = parser.parse_args(["--nets", "bert, chain:30", "--threads", "2", "--rounds", "1"])
    assert [net.name for net in given.nets] == ["bert", "chain:30"]
    assert (given.threads, given.rounds) == (2, 1)


@pytest.mark.parametrize(
    "given, message",
    [
        (["--rounds", "0"], "--rounds: must be at least 1, got '0'"),
        (["--rounds", "few"], "--rounds: must be at least 1, got 'few'"),
        (["--nets", "moa"], "--nets: unknown net moa: choose of resnet50, "),
        (["--backends", "moa"], "--backends: unknown backend 'moa'"),
        (["--kinds", "a,c"], "--kinds: unknown kind c: choose of a, b"),
        (["--kinds", ","], "--kinds: no kind named: choose of a, b"),
    ],
)
def test_what_is_refused_is_named(given, message, capsys):
    parser = arguments.make_parser("What it does.", nets="dcgan", rounds=1, backends="dnnl")
    parser.add_argument("--kinds", type=arguments.chosen_of(["a", "b"], "kind"))
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(given)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_a_text_table_is_as_wide_as_its_cells():
    rows = [["a", "1.0"], ["longer", "100.0", "what is said of it"]]
    assert tables.text_table(["side", "ms"], rows) == (
        "  side       ms\n  a         1.0\n  longer  100.0  what is said of it"
    )


def test_intervals_are_text():
    assert tables.interval_text([1.0, 0.5, 1.5]) == "1.000 [0.500, 1.500]"
    assert tables.interval_text((1.0, 1.0, 1.0), ".2f") == "1.00"
    assert tables.interval_text([1.0, 0.5, None]) == "1.000 (too few rounds to be sure)"
    assert tables.interval_text(None) == "-" and tables.milliseconds(2e-3) == "2.000"


def test_markdown_tables_keep_bars_in_cells():
    assert tables.markdown_table(["a", "b"], [["x|y", "1"]]) == (
        "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"
    )


def test_a_part_of_a_page_is_written_anew():
    page = "head\n<b>\nold\n<e>\ntail\n"
    assert tables.with_part(page, "<b>\n", "<e>\n", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="lacks the line <e>"):
        tables.with_part("head\n<b>\n", "<b>\n", "<e>\n", "new\n")


def test_records_are_by_key_sorted_and_the_last_counts(tmp_path):
    file, key = tmp_path / "out" / "records.jsonl", ("net", "batch")
    assert records.load(file, key) == {}
    for net, ms in (("b", 1.0), ("a", 2.0), ("b", 3.0)):
        records.save(file, key, {"net": net, "batch": 1, "ms": ms})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["net"], line["ms"]) for line in lines] == [("a", 2.0), ("b", 3.0)]
    assert records.load(file, key)["b", 1]["ms"] == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["records.jsonl"]


def test_records_saved_at_the_same_time_are_all_kept(tmp_path, monkeypatch):
    """Each is slow between reading the file and writing it."""
    file, load = tmp_path / "records.jsonl", records.load

    def slow_load(*arguments):
        found = load(*arguments)
        time.sleep(0.02)
        return found

    monkeypatch.setattr(records, "load", slow_load)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda net: records.save(file, ["net"], {"net": net}), range(8)))
    assert sorted(load(file, ["net"])) == [(net,) for net in range(8)]


def test_a_record_is_current_under_the_conditions_that_count():
    conditions = {"rounds": 3, "sizes": (1, 2), "commit": "abc"}
    record = {"conditions": {"rounds": 3, "sizes": [1, 2], "commit": "old"}}
    assert records.is_current(record, conditions, ["rounds", "sizes"])
    assert not records.is_current(record, conditions, ["rounds", "commit"])


KEY = ("net",)


def job(net, fails=False):
    def measure():
        if fails:
            raise FileNotFoundError("no such file")
        return {"ms": 1.0}

    return resume.Job(net, {"net": net}, measure)


def test_jobs_go_on_where_they_stopped(tmp_path, capsys):
    """What stands is not made again, whatever time is left; what is not there is a line."""
    book = resume.Book(tmp_path / "nets.jsonl", KEY, {"rounds": 3, "commit": "abc"})
    (first,) = resume.run([job("a"), job("b", fails=True)], book, lambda record: "1 ms")
    assert first["ms"] == 1.0 and first["conditions"] == book.conditions
    out, err = capsys.readouterr()
    assert "[1/2] a: 1 ms" in out and "[2/2] b: left out: no such file" in err
    jobs = [job("a"), job("c"), job("d")]
    assert resume.run(jobs, book, str, budget=-1.0) == [first]
    out = capsys.readouterr().out
    assert "a: is in nets.jsonl: " in out and "the budget of -1 s is used up: c, d" in out


@pytest.mark.parametrize(
    "changes, stands",
    [
        ({"conditions": {"rounds": 3, "commit": "new"}}, True),
        ({"conditions": {"rounds": 4, "commit": "abc"}}, False),
        ({"is_failed": lambda record: record["ms"] == 1.0}, False),
    ],
)
def test_a_record_stands_under_conditions_that_count(changes, stands, tmp_path):
    settings = {"conditions": {"rounds": 3, "commit": "abc"}}
    made = resume.Book(tmp_path / "nets.jsonl", KEY, **settings).make(job("a"))
    book = resume.Book(tmp_path / "nets.jsonl", KEY, **{**settings, **changes})
    assert book.standing(job("a")) == (made if stands else None)
    assert book.standing(job("a"), keep=True) == made and book.standing(job("b")) is None


def test_conditions_tell_of_the_user_s_variables_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    assert records.conditions({"rounds": 3}, [])["variables"]["OMP_PROC_BIND"] == "close"


def test_the_hash_of_code_is_of_what_judges_and_not_of_what_writes_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROOT", tmp_path)
    found = [records.code_hash()]
    for name in ("trials/judge.py", "summaries/mixes.py"):
        file = tmp_path / "bench" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("pass")
        found.append(records.code_hash())
    assert found[0] != found[1] == found[2]
