# SPDX-License-Identifier: Apache-2.0
"""`collage store`: what it prints, its JSON, its exit codes, stores that travel as text."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from store_files import FAULTS, damaged, fill, make_version_1, truncated
from store_rows import FAILED, KEY, MEASURED, decision, row, sql
from tvm.relay.collage.store import CostStore, Decisions, Environment
from tvm.relay.collage.store.decision_row import deciding_version
from tvm.relay.collage.store.key import stored_version
from tvm_collage.cli import main

HERE = Environment.here()._asdict() | {"backend_version": stored_version("dnnl")}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(row(**HERE))
        store.put(row(minute=1, **HERE | {"threads": "64"}))
        failed = {"candidate": "ffff000000000000", "backend": "tvm", "backend_version": ""}
        store.put(row(FAILED, minute=2, **HERE | failed))
    return path


def collage(capsys, *arguments):
    """(exit code, standard output, standard error) of a command."""
    code = main([str(each) for each in arguments])
    return code, *capsys.readouterr()


def collage_json(capsys, *arguments, code=0):
    found, out, _ = collage(capsys, *arguments, "--json")
    assert found == code
    return json.loads(out)


def test_list(path, capsys):
    code, out, _ = collage(capsys, "store", "list", "--store", path)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 4
    assert lines[0].split()[:2] == [KEY.candidate, "2026-01-31T12:00:00"]
    assert f"  dnnl {stored_version('dnnl')}  " in lines[0]
    assert (
        "dnnl(conv2d+relu)  measured 1.5 ms, median 1.3 ms [1.1 ms, 1.6 ms], 20 rounds" in lines[0]
    )
    assert "compile_failed: build: ValueError: no kernel for this" in out
    assert lines[-1] == f"3 costs, 1 of them failures; {path}"
    assert collage_json(capsys, "store", "list", "--store", path)[0] == row(**HERE).to_json()


def test_decisions_are_listed_checked_and_pruned(path, capsys):
    kept = decision(1, tvm=HERE["tvm"], collage=deciding_version())
    with CostStore(path) as store:
        for each in (decision(0), kept):
            Decisions(store).put(each)
    code, out, _ = collage(capsys, "store", "decisions", "--store", path)
    assert code == 0 and out.splitlines()[0] == kept.Summary()
    assert out.splitlines()[-1] == f"2 decisions; {path}"
    first = collage_json(capsys, "store", "decisions", "--store", path)[0]
    assert first == kept.to_json() and "report" not in first
    assert collage_json(capsys, "store", "check", "--store", path)["decisions"] == 2
    prune = ("store", "prune", "--store", path, "--other-versions")
    assert not collage_json(capsys, *prune, "--status", "crashed")["decisions"], "named costs alone"
    assert len(collage_json(capsys, *prune, "--dry-run")["decisions"]) == 1
    assert collage(capsys, *prune)[1].endswith(f", and 1 decisions; {path}\n")
    with CostStore(path) as store:
        assert Decisions(store).rows() == [kept]


@pytest.mark.parametrize(
    "filters, count",
    [
        ([], 3),
        (["--backend", "tvm"], 1),
        (["--status", "measured"], 2),
        (["0123"], 2),
        (["0123", "--status", "compile_failed"], 0),
    ],
)
def test_filters(path, capsys, filters, count):
    rows = collage_json(capsys, "store", "list", *filters, "--store", path)
    assert len(rows) == count
    code, out, err = collage(capsys, "store", "export", *filters, "--store", path)
    assert code == 0 and len(out.splitlines()) == count and f"{count} costs exported" in err


def test_explain_counts_what_keeps_costs_from_serving(path, capsys):
    code, out, _ = collage(capsys, "store", "explain", "--store", path)
    assert code == 0
    assert out.splitlines() == [
        "2 of 3 costs serve searches of their models here and now",
        f"1 was measured with another number of threads: 64, now {HERE['threads']}",
    ]
    _, out, _ = collage(capsys, "store", "explain", "--store", path, "--set", "threads=64")
    assert out.splitlines()[0] == "1 of 3 costs serve searches of their models here and now"


def test_costs_of_every_network_serve_their_own(tmp_path, capsys):
    """How much a network reads between two runs of a part is its own matter; a seed is a choice."""
    version = HERE["measuring"]
    chosen = [' {"network_bytes": 4096}', ' {"network_bytes": 8192}', ' {"seed": 7}', " odd", " 5"]
    with CostStore(tmp_path / "s") as store:
        for number, text in enumerate(chosen):
            other = {"candidate": f"{number:016}", "measuring": version + text}
            store.put(row(**HERE | other))
    _, out, _ = collage(capsys, "store", "explain", "--store", tmp_path / "s")
    first, *others = out.splitlines()
    assert first == "2 of 5 costs serve searches of their models here and now"
    assert f'another way of measuring: {version} {{"seed": 7}}, now {version}' in out
    assert len(others) == 3


def test_costs_from_a_busy_machine_are_told(tmp_path, capsys):
    path = tmp_path / "busy.sqlite"
    with CostStore(path) as store:
        store.put(row(**HERE))
        busy = dataclasses.replace(MEASURED, load=0.55)
        store.put(row(busy, **HERE | {"candidate": "eeee000000000000"}))
    _, out, _ = collage(capsys, "store", "list", "--store", path)
    assert out.count("machine busy (others took 55%)") == 1
    assert out.splitlines()[-1] == f"2 costs, 0 of them failures, 1 from a busy machine; {path}"
    _, out, _ = collage(capsys, "store", "explain", "--store", path)
    assert out.splitlines() == [
        "2 of 2 costs serve searches of their models here and now",
        "1 of these only while the machine is busy, as it was when they were measured: a search "
        "that finds it quiet measures them again",
    ]
    _, out, _ = collage(capsys, "store", "explain", "eeee", "--store", path)
    assert out.rstrip().endswith(", serves only while the machine is busy")
    found = collage_json(capsys, "store", "explain", "--store", path)
    assert [item["only_while_busy"] for item in found] == [False, True]


def test_explain_one_candidate(path, capsys):
    _, out, _ = collage(capsys, "store", "explain", "0123", "--store", path)
    assert out.count("dnnl(conv2d+relu): measured") == 2
    assert ", serves\n" in out and ", does not serve\n" in out
    assert f"  threads: stored '64', now '{HERE['threads']}'" in out
    first, second = collage_json(capsys, "store", "explain", "0123", "--store", path)
    assert first["serves"] and first["differences"] == {}
    assert second["differences"] == {"threads": {"stored": "64", "now": HERE["threads"]}}
    code, out, err = collage(capsys, "store", "explain", "eeee", "--store", path)
    assert (code, out) == (2, "") and "never measured" in err


def test_explain_names_backends_that_are_not_here(tmp_path, capsys):
    with CostStore(tmp_path / "s") as store:
        store.put(row(**HERE | {"backend": "cutlass", "backend_version": "3.1"}))
    _, out, _ = collage(capsys, "store", "explain", "--store", tmp_path / "s")
    assert "1 was measured with another version of the backend: 3.1, now none here" in out


def test_export_and_import_keep_the_newer(path, tmp_path, capsys, monkeypatch):
    lines = tmp_path / "costs.jsonl"
    assert collage(capsys, "store", "export", "--store", path, "--output", lines)[0] == 0
    other = tmp_path / "other" / "costs.sqlite"
    with CostStore(other) as store:
        store.put(row(FAILED, minute=30, **HERE))
    report = collage_json(capsys, "store", "import", lines, "--store", other)
    assert report == {"read": 3, "changed": 2, "store": str(other)}
    with CostStore(other) as store, CostStore(path) as first:
        key = row(**HERE).key
        assert store.get(key).cost == FAILED, "the newer one stays"
        assert [r for r in store.rows() if r.key != key] == [
            r for r in first.rows() if r.key != key
        ]
    code, out, _ = collage(capsys, "store", "import", lines, "--store", other)
    assert code == 0 and out == f"3 costs read, 0 of them new or newer; {other}\n"


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "Expecting property name"),
        ("[1]", "not an object"),
        ("[" * 100_000, "nested"),
        ('{"status": "measured"}', "missing or unknown columns"),
        (json.dumps(row().to_json() | {"status": "fast"}), "unknown cost status"),
        (json.dumps(row().to_json() | {"seconds": float("nan")}), "needs finite seconds"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_imported(path, tmp_path, capsys, line, message):
    good = json.dumps(row(threads="7").to_json())
    (tmp_path / "lines").write_text(f"{good}\n\n{line}\n")
    code, _, err = collage(capsys, "store", "import", tmp_path / "lines", "--store", path)
    assert code == 1 and f"{tmp_path / 'lines'}, line 3 is no row" in err and message in err
    with CostStore(path) as store:
        assert len(store.rows()) == 3


def test_import_of_what_is_no_text_or_not_there(path, tmp_path, capsys):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, message in (("bytes", "is no text"), ("nothing", "No such file")):
        code, _, err = collage(capsys, "store", "import", tmp_path / name, "--store", path)
        assert code == 1 and message in err and str(tmp_path / name) in err


def test_check_of_a_sound_store(path, capsys):
    code, out, _ = collage(capsys, "store", "check", "--store", path)
    assert (code, out) == (0, f"{path}: sound, 3 costs, 0 decisions\n")
    report = collage_json(capsys, "store", "check", "--store", path)
    assert report == {
        "store": str(path),
        "sound": True,
        "costs": 3,
        "decisions": 0,
        "problems": [],
    }


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
def test_check_of_a_faulty_one(tmp_path, capsys, make):
    make(tmp_path / "s")
    code, out, _ = collage(capsys, "store", "check", "--store", tmp_path / "s")
    assert code == 1 and FAULTS[make][1] in out
    assert out.splitlines()[-1] == f"{tmp_path / 's'}: FAULTY"
    assert collage_json(capsys, "store", "check", "--store", tmp_path / "s", code=1)["problems"]


def test_check_names_rows_that_are_none(path, capsys):
    with sql(path) as connection:
        connection.execute("UPDATE cost SET seconds = -1 WHERE threads = '64'")
    code, out, _ = collage(capsys, "store", "check", "--store", path)
    assert code == 1 and f"row {KEY.candidate} of dnnl" in out and "FAULTY" in out


@pytest.mark.parametrize("action", ["list", "explain", "export", "check"])
def test_reading_neither_makes_nor_changes_a_file(tmp_path, capsys, action):
    missing = tmp_path / "new" / "s"
    code, out, err = collage(capsys, "store", action, "--store", missing)
    assert code == 1 and "there is no such file" in out + err
    assert not missing.parent.exists()
    for make, name in ((fill, "new"), (make_version_1, "old")):
        make(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        code, out, err = collage(capsys, "store", action, "--store", tmp_path / name)
        assert code == (name == "old")
        assert ("an older layout" in out + err) == (name == "old")
        assert "FAULTY" not in out
        assert (tmp_path / name).read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "old"]


def test_an_older_layout_says_how_it_is_brought_up_to_date(tmp_path, capsys):
    make_version_1(tmp_path / "old")
    _, _, err = collage(capsys, "store", "list", "--store", tmp_path / "old")
    assert "or now: `collage store import /dev/null`" in err
    assert collage(capsys, "store", "import", "/dev/null", "--store", tmp_path / "old")[0] == 0
    code, out, _ = collage(capsys, "store", "list", "--store", tmp_path / "old")
    assert code == 0 and "3 costs" in out


@pytest.mark.parametrize("make", [truncated, damaged], ids=lambda make: make.__name__)
def test_salvage_of_a_damaged_store(tmp_path, capsys, make):
    make(tmp_path / "s")
    assert collage(capsys, "store", "export", "--store", tmp_path / "s")[0] == 1
    lines = tmp_path / "saved"
    code, _, err = collage(
        capsys, "store", "export", "--salvage", "--store", tmp_path / "s", "--output", lines
    )
    saved = lines.read_text().splitlines()
    assert code == 0 and len(saved) > 10 and f"{len(saved)} costs exported" in err
    report = collage_json(capsys, "store", "import", lines, "--store", tmp_path / "new")
    assert report["changed"] == len(saved)


def test_errors_as_json(tmp_path, capsys):
    (tmp_path / "s").write_text("no database, but long enough to have a header of its own\n" * 9)
    report = collage_json(capsys, "store", "list", "--store", tmp_path / "s", code=1)
    assert report["kind"] == "StoreForeignError" and str(tmp_path / "s") in report["error"]


def test_no_store_at_all(capsys):
    code, _, err = collage(capsys, "store", "list")
    assert code == 1 and "COLLAGE_STORE=none" in err and "--store" in err


def test_as_a_command_in_a_pipe_that_closes_early(path):
    command = f"{sys.executable} -m tvm.relay.collage store export --store {path}"
    code = f"{command} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "{" and "Traceback" not in done.stderr


def test_the_script_says_why_it_cannot_when_collage_is_disabled(tmp_path):
    code = (
        "import sys, tvm_collage.command as c; sys.argv = ['collage', 'doctor']; sys.exit(c.main())"
    )
    for stock in ("tvm", "tvm/relay", "tvm/relay/collage"):
        (tmp_path / stock).mkdir()
        (tmp_path / stock / "__init__.py").touch()
    disabled = {**os.environ, "COLLAGE_DISABLE": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=disabled, capture_output=True)
    assert done.returncode == 1
    assert done.stderr == b"collage: tvm.relay.collage is TVM's own; unset COLLAGE_DISABLE\n"
