# SPDX-License-Identifier: Apache-2.0
"""The command `collage` itself: Ctrl-C, errors, arguments."""

import argparse
import contextlib
import io
import json
import logging
import re
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest
import tvm
from cli_nets import write_net
from json_schema import errors
from store_rows import row
from transfer_nets import dense, source
from tree import ROOT
from tvm.relay.collage import CollageError
from tvm.relay.collage.cli import compile, doctor, store
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.options.named import option
from tvm.relay.collage.store import CostStore
from tvm_collage import cli, command
from tvm_collage.cli import leaves_of, main, make_parser

SCHEMA = json.loads((ROOT / "docs" / "progress.schema.json").read_text())


def raising(error):
    def run(options):
        raise error

    return run


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    monkeypatch.setattr(store, "check_store", raising(KeyboardInterrupt()))
    assert main(["store", "check"]) == 130
    assert capsys.readouterr() == ("", "collage: interrupted\n")


# A command that says when it runs, then waits for the signal. Tests that run in the background
# ignore that signal and would pass this on.
WAITING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
from tvm_collage import cli, command
{patch}
sys.argv = ["collage", *{command}]
sys.exit(command.main())
"""
WAIT = "print('ready', flush=True); signal.pause()"
IN_A_COMMAND = {
    "before": f"def wait(*_, **__): {WAIT}",
    "patch": "import types; sys.modules['shtab'] = types.SimpleNamespace(complete=wait)",
    "command": ["completion", "bash"],
}
# While the package is imported.
IN_AN_IMPORT = {
    "before": f"class Waiting:\n  def find_spec(self, name, *_):\n    if name == 'tvm': {WAIT}",
    "patch": "sys.meta_path.insert(0, Waiting())",
}


# Where TVM's C++ calls Python, as it does to fold constants: its FFI would lose an exception, and
# C++ go on without an answer.
IN_A_MODELS_IMPORT = {
    "before": f"def wait(): {WAIT}",
    "patch": "import tvm; from tvm.relay.collage.cli import building; "
    "building.why_no_file = lambda path: ''; "
    "building.onnx_module = lambda *_: tvm.runtime.convert(wait)()",
    "command": ["search", "net.onnx", "--backends="],
}
PLACES = {"command": IN_A_COMMAND, "import": IN_AN_IMPORT}


def interrupted(where, is_heard=True):
    """Exit code and standard error of a command that gets a Ctrl-C where it waits. is_heard: that
    somebody reads it."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING.format(**{"command": ["store", "check"], **where})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    if not is_heard:
        process.stderr.close()
    process.send_signal(signal.SIGINT)
    told = process.stderr.read() if is_heard else ""
    return process.wait(), told


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
def test_a_real_ctrl_c_leaves_no_traceback(where):
    assert interrupted(where) == (130, "collage: interrupted\n")


def test_a_ctrl_c_while_a_model_is_imported_is_a_line_of_json_where_all_are():
    command = [*IN_A_MODELS_IMPORT["command"], "--json-lines"]
    code, told = interrupted({**IN_A_MODELS_IMPORT, "command": command})
    assert code == 130 and json.loads(told) == {"kind": "error", "text": "interrupted"}


def test_ctrl_c_ends_a_command_that_nobody_reads():
    assert interrupted(IN_AN_IMPORT, is_heard=False) == (130, "")


LOADING = r"collage: loading TVM\.*\r\x1b\[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "flags", "told"),
    [
        (Terminal(), [], LOADING),
        (Terminal(), ["--store", "quiet"], LOADING),
        (Terminal(), ["--quiet"], ""),
        (Terminal(), ["--json"], ""),
        (Terminal(), ["--progress=json"], ""),
        (Terminal(), ["--progress", "quiet"], ""),
        (io.StringIO(), [], ""),
    ],
)
def test_a_terminal_says_so_while_tvm_is_loaded(monkeypatch, stream, flags, told):
    monkeypatch.setattr(sys, "argv", ["collage", "store", "check", *flags])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("tvm.relay.collage.cli.run_command", lambda options: 7)
    assert command.main() == 7
    assert re.fullmatch(told, stream.getvalue())


def test_the_line_moves_while_tvm_is_loaded(monkeypatch):
    """Loading lasts until the line has moved twice."""
    stream = Terminal()

    def run_command(options):
        return 7

    def loads(tunes):
        give_up = time.monotonic() + 60
        while ".." not in stream.getvalue() and time.monotonic() < give_up:
            time.sleep(0.01)
        return contextlib.nullcontext()

    monkeypatch.setattr(sys, "argv", ["collage", "store", "check"])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("tvm.relay.collage.cli.run_command", run_command)
    monkeypatch.setattr(cli, "quick_loading", loads)
    assert command.main() == 7
    assert re.fullmatch(LOADING, stream.getvalue()) and ".." in stream.getvalue()


@pytest.mark.parametrize(
    ("line", "tunes"),
    [
        ("compile m.onnx -o m.so", False),
        ("compile m.onnx -o m.so --tune 8", True),
        ("run m.so", False),
        ("tt info log", True),
    ],
)
def test_tuners_are_loaded_whole_for_commands_that_tune(monkeypatch, line, tunes):
    told = []

    def loads(tunes):
        told.append(tunes)
        return contextlib.nullcontext()

    monkeypatch.setattr(cli, "quick_loading", loads)
    monkeypatch.setattr("tvm.relay.collage.cli.run_command", lambda options: 7)
    assert cli.main(line.split()) == 7 and told == [tunes]


@pytest.mark.parametrize("closed", [["stderr"], ["stdout", "stderr"]])
def test_what_goes_to_a_closed_stream_goes_nowhere(monkeypatch, capfd, closed):
    monkeypatch.setattr(sys, "argv", ["collage", "store", "list", "--store", "/no/such.sqlite"])
    for name in closed:
        monkeypatch.setattr(sys, name, None)
    assert command.main() == 1
    for name in closed:
        getattr(sys, name).close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [
        CollageError("no such thing"),
        CollageError("no function 'tvm.relay.collage.store.key'"),
        CollageError("no file /tmp/relay.collage.store"),
        CollageError("no target with the option stores"),
        CollageError("no file named (relay.collage.store)"),
        CollageError(),
        OSError("no file relay.collage.store"),
        tvm.TVMError("no file relay.collage.store"),
    ],
    ids=str,
)
def test_errors_are_one_line_and_1(monkeypatch, capsys, error):
    """Word by word: what only looks like an option is none."""
    monkeypatch.setattr(store, "check_store", raising(error))
    assert main(["store", "check"]) == 1
    assert capsys.readouterr() == ("", f"collage: {error}\n")
    assert main(["store", "check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "error": str(error),
        "kind": type(error).__name__,
    }


def test_what_tvm_raises_is_its_last_line(monkeypatch, capsys):
    error = tvm.TVMError("Traceback\n  1: somewhere\nInternalError: no such thing\n")
    monkeypatch.setattr(store, "check_store", raising(error))
    assert main(["store", "check"]) == 1
    assert capsys.readouterr() == ("", "collage: InternalError: no such thing\n")


@pytest.mark.parametrize(
    "error", [AttributeError("'NoneType' object\nhas no attribute 'x'"), KeyError("x"), KeyError()]
)
def test_a_fault_of_the_code_is_one_line_too(monkeypatch, capsys, error):
    monkeypatch.setattr(store, "check_store", raising(error))
    assert main(["store", "check"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    assert err.startswith(f"collage: {type(error).__name__}") and "COLLAGE_TRACEBACK=1" in err
    monkeypatch.setenv("COLLAGE_TRACEBACK", "1")
    assert main(["store", "check"]) == 1
    assert "in run\n" in capsys.readouterr().err


def test_quiet_commands_print_no_results(monkeypatch, capsys):
    monkeypatch.setattr(store, "check_store", lambda options: print("results") or 0)
    assert main(["store", "check", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["store", "check"]) == 0
    assert capsys.readouterr().out == "results\n"


@pytest.mark.parametrize(
    "arguments", [["completion", "bash"], ["store", "export", "--store", "{}"]], ids=" ".join
)
def test_what_another_program_reads_is_printed_by_quiet_commands_too(tmp_path, capsys, arguments):
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as found:
        found.put(row())
    assert main([*(piece.format(path) for piece in arguments), "--quiet"]) == 0
    assert len(capsys.readouterr().out) > 100


@pytest.mark.parametrize(
    ("arguments", "command", "says"),
    [
        (["complie"], "collage", "did you mean compile?"),
        (["--versoin"], "collage", "unrecognized option --versoin, did you mean --version?"),
        (["store"], "collage store", "required"),
        (["backends", "--nope"], "collage backends", "unrecognized option --nope"),
        (["run", "net.so", "more"], "collage run", "unrecognized arguments: more"),
        (["run", "net.so", "--tme"], "collage run", "did you mean --time?"),
        # Before what is missing, which the user has given by another name.
        (["compile", "n.onnx", "--ouput=l"], "collage compile", "--ouput, did you mean --output?"),
        (["search", "n", "--search-seconds=9"], "collage search", "did you mean --time-limit?"),
        (["compile", "n.onnx"], "collage compile", "required: -o/--output"),
        (["store", "exprot"], "collage store", "did you mean export?"),
        (
            ["report", "n.onnx", "--shape", "x=1"],
            "collage report",
            "--shape, which belongs to `collage compile`, `collage search`, `collage replay` and "
            "others; collage report reads a library, ",
        ),
        (["explain", "n.onnx", "--shape=x=1"], "collage explain", "; collage explain reads a "),
        (["run", "n.onnx", "--backends", "dnnl"], "collage run", "reads a library, which `collage"),
        (["tt", "info", "n.onnx", "--jsn"], "collage tt info", "did you mean --json?"),
        (["bench", "n.onnx", "--rounds", "0"], "collage bench", "is no number of rounds"),
        (["completion", "csh"], "collage completion", "choose from 'bash', "),
        (["compile", "n.onnx", "-o", "n.tar"], "collage compile", "end it in .so"),
        (["compile", "n.onnx", "-o", "tvm.so"], "collage compile", "would hide Python's module"),
        (["search", "n.onnx", "--shape", "x:1"], "collage search", "is no INPUT=DIMS"),
        (["search", "n.onnx", "--shape", "x=0,4"], "collage search", "'x=0,4' is no INPUT=DIMS"),
        (["search", "n.onnx", "--shape", "x=-1,4"], "collage search", "'x=-1,4' is no INPUT=DIMS"),
        (["report", "n.so", "--plan", "b"], "collage report", "by one of --html, --svg"),
        (["report", "n.so", "--html=p", "--boxes=2"], "collage report", "--svg or --pdf"),
        (["store", "delete"], "collage store", "invalid choice: 'delete'"),
        (["store", "list", "--status", "fast"], "collage store list", "invalid choice: 'fast'"),
        (["store", "explain", "--set", "speed=1"], "collage store explain", "is no PART=VALUE"),
        (["store", "import"], "collage store import", "required: input"),
        (["store", "prune", "--older-than=x"], "collage store prune", "no number of days from 0"),
        (["tt", "export", "-o=x", "--models=lenet"], "collage tt export", "choose of resnet18"),
        (["tt", "transfer", "n", "--best", "0"], "collage tt transfer", "0 is less than 1"),
        (["tt", "choose", "n", "--shape", "x=a"], "collage tt choose", "is no INPUT=DIMS"),
        (["tt", "transfer", "n", "--seconds=nan"], "collage tt transfer", "no number of seconds"),
        (["tt", "transfer", "n", "--from", "l"], "collage tt transfer", "required: --log"),
    ],
    ids=str,
)
def test_wrong_arguments_are_one_line_of_the_command_and_2(capsys, arguments, command, says):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"{command}: error: ") and says in err
    assert err.endswith(f" (see `{command} --help`)\n")


@pytest.fixture
def files(tmp_path):
    """What the commands of EXIT_CODES name."""
    with CostStore(tmp_path / "costs.sqlite") as found:
        found.put(row())
    (tmp_path / "damaged").write_text("no database, no report and no log of anything at all" * 99)
    append_line(tmp_path / "log.jsonl", source([], dense).line)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "broken_module.py").write_text("import no_such_module\n")
    write_net(tmp_path / "net.onnx")
    write_net(tmp_path / "open.onnx", batch="n")
    return tmp_path


# By the rows of the table in docs/tools.md.
EXIT_CODES = {
    (1, "a file to read"): [
        "report F/none",
        "report F/damaged",
        "tt info F/damaged",
        "search F/damaged --backends=",
        "backends --import broken_module",
    ],
    (1, "what a file holds does not fit"): [
        "search F/open.onnx --backends=",
        "tt distil F/empty.jsonl -o F/new.jsonl",
    ],
    (1, "a check found a fault"): ["store check --store F/damaged"],
    (2, "a command or flag"): ["nope", "store list --nope", "cache clear --store F/costs.sqlite"],
    (2, "a value that a flag does not take"): [
        "store list --status fast",
        "search F/net.onnx --backends= --shape y=1",
        "search F/net.onnx --backends= --shape x=2,4,8,8",
    ],
    (2, "what there is not"): [
        "backends nope",
        "backends --import no_such_module",
        "backends --import json.no_such_part",
        "store explain eeee --store F/costs.sqlite",
    ],
    (2, "a path that cannot be written"): [
        "search F/net.onnx --backends= --report /proc/x",
        "search F/net.onnx --backends= --original none --tune 1 --tuner ansor "
        "--tune-log /proc/x/log",
        "store export --output /proc/x --store F/costs.sqlite",
        "tt distil F/log.jsonl -o /proc/x",
        "tt split F/log.jsonl -o /proc/x",
        "tt many F/net.onnx --from F/log.jsonl -o /proc/x",
        "tt many F/net.onnx --from F/log.jsonl -o /proc",
        "tt export -o /proc/x",
        "tt export -o /proc",
    ],
}


@pytest.mark.parametrize(("code", "row"), EXIT_CODES, ids=str)
def test_exit_codes_are_those_of_the_table(files, monkeypatch, capsys, code, row):
    monkeypatch.syspath_prepend(files)
    for line in EXIT_CODES[code, row]:
        try:
            found = main(line.replace("F/", f"{files}/").split())
        except SystemExit as ended:
            found = ended.code
        told = capsys.readouterr()
        assert found == code, (line, told)


def test_a_file_that_is_not_there_is_told_without_pythons_number_of_it(tmp_path, capsys):
    assert main(["store", "import", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"collage: {tmp_path / 'none'}: No such file or directory\n"


def test_without_a_command_they_are_listed(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])
    out, err = capsys.readouterr()
    assert out == "" and "compile" in err and "compile a model to the fastest" in err


def warning(options):
    logging.getLogger("tvm.relay.collage.machine.load").warning("the machine was busy")
    return 0


def test_a_quiet_command_does_not_warn(monkeypatch, capsys):
    monkeypatch.setattr(compile, "search_model", warning)
    assert main(["search", "net.onnx", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("flags", [["--json-lines"], ["--progress", "json"]], ids=str)
def test_json_lines_are_all_of_standard_error(monkeypatch, capsys, flags):
    monkeypatch.setattr(compile, "search_model", warning)
    assert main(["search", "net.onnx", *flags]) == 0
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert line == {"kind": "warning", "text": "the machine was busy"}
    assert errors(SCHEMA, line) == []
    for error, code in ((CollageError("no such thing"), 1), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(compile, "search_model", raising(error))
        assert main(["search", "net.onnx", *flags]) == code
        line = json.loads(capsys.readouterr().err)
        assert line == {"kind": "error", "text": str(error) or "interrupted"}


def test_what_follows_two_dashes_is_no_flag(tmp_path, capsys):
    assert main(["report", "--", "--file"]) == 1
    assert "--file cannot be read" in capsys.readouterr().err


LOG = option("tuning_log", "the option relay.collage.tuning_log=['a']", value="a")
WORKERS = option("workers", "option workers")
STORE = option("store", "relay.collage.store")


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        (["search", "n"], "by " + LOG, "by --tuning-log a"),
        (["search", "n"], option("guard") + " on; " + WORKERS, "--guard on; --workers"),
        (["search", "n"], "(" + STORE + "); tune_model", "(--store); tune_model"),
        (["search", "n"], option("placement_allow"), "option relay.collage.placement_allow"),
        (["store", "check"], "name another file (" + STORE + ")", "another file (--store)"),
        (["store", "check"], "set " + STORE + ".", "set --store."),
        (["doctor"], WORKERS, "option workers"),
    ],
)
def test_options_are_called_as_the_command_has_them(capsys, monkeypatch, arguments, text, says):
    for parts in (compile, store, doctor):
        for name in ("search_model", "check_store", "examine_machine"):
            monkeypatch.setattr(parts, name, raising(CollageError(text)), raising=False)
    assert main(arguments) == 1
    assert says in capsys.readouterr().err


def test_a_parser_reads_the_process_s_own_arguments(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["collage", "store", "--chek"])
    for read in (main, make_parser().parse_known_args):
        with pytest.raises(SystemExit, match="2"):
            read()
        assert capsys.readouterr().err.startswith("collage store: error: unrecognized option --ch")


def test_every_argument_and_default_of_tt_is_told_in_the_help():
    of_tt = [leaf for leaf in leaves_of(make_parser()) if leaf.prog.startswith("collage tt ")]
    assert len(of_tt) == 10
    for leaf in of_tt:
        for action in leaf._actions:
            text = action.help or ""
            assert len(text.split()) > 1, f"{leaf.prog} {action.dest} has no help"
            # That nothing is set goes without saying.
            is_set = action.default not in (None, False, "", [], argparse.SUPPRESS)
            assert not is_set or "(default: " in text, f"{leaf.prog} {action.dest}: {text}"


def test_help_names_commands_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    for piece in ("store", "backends", "Exit codes: 0 done", "130 Ctrl-C"):
        assert piece in out


def test_what_needs_no_tvm_does_not_import_it():
    wrong = [
        [],
        ["--version"],
        ["compile", "net.onnx"],
        ["report", "net.so", "--boxes", "3"],
        ["completion", "bash"],
    ]
    helps = [[*leaf.prog.split()[1:], "--help"] for leaf in leaves_of(make_parser())]
    code = "".join(
        f"try:\n    cli.main({each})\nexcept SystemExit:\n    pass\n" for each in [*wrong, *helps]
    )
    code = f"import sys\nfrom tvm_collage import cli\n{code}"
    told = "print('tvm:', [name for name in sys.modules if name.startswith('tvm.')])"
    done = subprocess.run([sys.executable, "-c", code + told], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "tvm: []"


def test_each_command_has_its_function():
    names = [leaf.get_default("run") for leaf in leaves_of(make_parser())]
    pairs = [name.rpartition(".")[::2] for name in names if isinstance(name, str)]
    modules = {name: import_module(f"tvm.relay.collage.cli.{name}") for name, _ in pairs}
    assert all(callable(getattr(modules[name], function)) for name, function in pairs)
