# SPDX-License-Identifier: Apache-2.0
"""`collage doctor` on machines made up: each check's good and bad cases, the table, exit codes."""

import dataclasses
import json

import pytest
from tvm.relay.collage import doctor
from tvm.relay.collage.cli import doctor as cli_doctor
from tvm.relay.collage.doctor.checks import OK, PROBLEM, WARNING
from tvm_collage.cli import main

DNNL = {"name": "dnnl", "version": "3.2.0", "is_available": True, "reason": ""}
MKL = {"name": "mkl", "version": "", "is_available": False, "reason": "libmkl_rt.so is missing"}
GOOD = doctor.MachineFacts(
    cpu="AMD EPYC",
    cpus=8,
    allowed=8,
    cores=8,
    quota=None,
    governors=("performance",),
    megahertz=2600.0,
    load=0.0,
    noise=doctor.Noise(0.01, 8, 7.9),
    sharing=0.05,
    environment={
        "TVM_NUM_THREADS": "8",
        "OMP_NUM_THREADS": "8",
        "GOMP_SPINCOUNT": "1000",
        "TVM_BIND_THREADS": "0",
    },
    openmp=("/lib/libgomp.so.1", "/site-packages/xgboost_cpu.libs/libgomp-1.so"),
    system_cpu="znver4",
    target="llvm -keys=cpu -mcpu=znver4",
    backends=(DNNL,),
    store="/home/me/costs.sqlite",
    store_costs=12,
    store_error="",
    store_is_older=False,
    compiler="/usr/bin/g++",
    compiler_fault="",
    disk={"/tmp": 50 * 2**30, "/home/me": 9 * 2**30},
    memory=30 * 2**30,
    versions="tvm-collage 1, TVM 0.19.0, LLVM 22",
)


BUSY = "others take 90% of the 8 CPUs that this process may use"


def variables(**changes):
    return {"environment": {**GOOD.environment, **changes}}


def test_a_good_machine_has_nothing_to_say():
    findings = doctor.examine(GOOD)
    assert list(findings) == list(doctor.CHECKS)
    assert {name: each for name, each in findings.items() if each.state != OK or each.advice} == {}


# Check, what is different from GOOD, state, what is found, what to do.
BAD = [
    ("cgroup quota", {"quota": 2.5}, WARNING, "allows 2.5 CPUs' worth", "2 threads are used"),
    ("cgroup quota", {"quota": 0.5}, PROBLEM, "allows 0.5 CPUs' worth", "a whole CPU"),
    ("threads", variables(TVM_NUM_THREADS="four"), PROBLEM, "is 'four'", "1 or more"),
    ("threads", variables(OMP_NUM_THREADS="0"), PROBLEM, "OMP_NUM_THREADS is '0'", "1 or more"),
    ("threads", variables(OMP_NUM_THREADS="4,2"), WARNING, "OMP_NUM_THREADS 4", "same number"),
    ("threads", {"cores": 4}, WARNING, "8 threads on 4 cores", "TVM_NUM_THREADS to 4"),
    ("threads", {"allowed": 4, "cores": 4}, PROBLEM, "8 threads on 4 allowed", "to 4"),
    (
        "threads",
        variables(TVM_NUM_THREADS="2", OMP_NUM_THREADS="2"),
        WARNING,
        "2 threads on 8 cores",
        "deploy with the same",
    ),
    ("waiting", variables(OMP_WAIT_POLICY="active"), WARNING, "idle threads spin", "unset"),
    ("waiting", variables(GOMP_SPINCOUNT="infinity"), WARNING, "is infinity", "sets 1000"),
    ("waiting", variables(GOMP_SPINCOUNT=""), WARNING, "is not set", "sets 1000"),
    ("waiting", variables(TVM_BIND_THREADS="1"), WARNING, "binds threads", "unset"),
    (
        "spreading",
        {"sharing": 0.9, **variables(COLLAGE_SPREAD_THREADS="0")},
        WARNING,
        "after 90% of pauses",
        "unset COLLAGE_SPREAD_THREADS",
    ),
    (
        "spreading",
        {"sharing": 0.9, **variables(OMP_PROC_BIND="true")},
        WARNING,
        "after 90% of pauses",
        "OMP_PROC_BIND",
    ),
    (
        "OpenMP",
        {"openmp": ("/lib/libgomp.so.1", "/torch/lib/libgomp-a34b.so.1")},
        WARNING,
        "2 OpenMP runtimes in this process: /lib/libgomp.so.1, /torch",
        "do not import the other library",
    ),
    ("frequency", {"governors": ("powersave",)}, WARNING, "powersave, 2600 MHz", "cpupower"),
    ("load", {"load": 0.55}, WARNING, "others take 55% of the 8 CPUs", "end other processes"),
    ("noise", {"noise": doctor.Noise(0.15, 8, 8)}, WARNING, "spreads by 15.0%", "quiet"),
    ("noise", {"noise": doctor.Noise(0.5, 8, 8)}, PROBLEM, "spreads by 50.0%", "guard_rounds"),
    (
        "scaling",
        {"noise": doctor.Noise(0, 8, 6.0)},
        WARNING,
        "8 threads do the work of 6.00",
        "to 6",
    ),
    ("scaling", {"noise": doctor.Noise(0, 2, 1.5)}, WARNING, "the work of 1.50", "quota): use a"),
    ("scaling", {"noise": doctor.Noise(0, 8, 0.4)}, PROBLEM, "the work of 0.40", "to 1,"),
    ("target", {"target": "llvm"}, PROBLEM, "'llvm' names no CPU", "10x slower"),
    ("target", {"target": "llvm -mcpu=native"}, PROBLEM, "-mcpu=native", "5x slower"),
    ("target", {"target": "llvm -mcpu=znver2"}, WARNING, "for znver2", "host_target()"),
    ("target", {"target": "c"}, WARNING, "host target c", "host_target()"),
    ("target", {"system_cpu": "generic"}, PROBLEM, "LLVM does not know this CPU", "name it"),
    ("backends", {"backends": (DNNL, MKL)}, WARNING, "mkl (libmkl_rt.so is missing)", "install"),
    ("backends", {"backends": (MKL,)}, PROBLEM, "available: none", "nothing to choose from"),
    ("store", {"store": None}, WARNING, "no store", "COLLAGE_STORE"),
    ("store", {"store_error": "it is cut off"}, PROBLEM, "sqlite: it is cut off", "store check"),
    ("compiler", {"compiler": ""}, PROBLEM, "no C++ compiler", "install g++"),
    ("compiler", {"compiler_fault": "g++ cannot link"}, PROBLEM, "cannot link", "a whole g++"),
    ("disk", {"disk": {"/tmp": 2**30}}, WARNING, "1.0 GiB in /tmp", "TMPDIR"),
    ("disk", {"disk": {"/tmp": 2**40, "/home": 2**20}}, PROBLEM, "0.0 GiB in /home", "make room"),
    ("memory", {"memory": 2**30}, WARNING, "1.0 GiB available", "workers to 1"),
]


def test_others_are_no_fault_of_the_cores():
    busy = dataclasses.replace(GOOD, noise=doctor.Noise(0, 8, 4.0), load=0.5)
    found = doctor.examine(busy)["scaling"]
    assert found.state == PROBLEM and "4.00; others took 50% of the CPUs before" in found.found
    assert "TVM_NUM_THREADS" not in found.advice and "when the others have ended" in found.advice


@pytest.mark.parametrize("name, changes, state, found, advice", BAD)
def test_what_is_wrong_is_told_by_its_check_alone(name, changes, state, found, advice):
    findings = doctor.examine(dataclasses.replace(GOOD, **changes))
    finding = findings[name]
    assert finding.state == state and found in finding.found and advice in finding.advice
    # A change of the cores is one for the threads that run on them, too.
    assert {key for key, each in findings.items() if each.state != OK} == {name}


def test_every_check_has_a_bad_case():
    assert {row[0] for row in BAD} == set(doctor.CHECKS) - {"versions", "cores"}


@pytest.mark.parametrize(
    "name, changes, found",
    [
        ("cores", {"allowed": 2, "cores": 2}, "the affinity mask allows 2 of 8 CPUs"),
        ("cgroup quota", {"quota": 8.0}, "allows 8 CPUs' worth"),
        ("OpenMP", {"openmp": ()}, "no OpenMP"),
        ("spreading", {"sharing": None}, "no team of threads"),
        (
            "spreading",
            {"sharing": 0.9, **variables(COLLAGE_SPREAD_THREADS="")},
            "they are spread",
        ),
        ("frequency", {"governors": (), "megahertz": None}, "cannot be read here"),
        ("scaling", {"noise": doctor.Noise(0.01, 1, 1.0)}, "one thread"),
        ("store", {"store_costs": None}, "none yet"),
        ("store", {"store_costs": None, "store_is_older": True}, "brings up to date"),
        ("memory", {"memory": None}, "cannot be read here"),
    ],
)
def test_what_is_unknown_or_unusual_is_no_fault(name, changes, found):
    finding = doctor.examine(dataclasses.replace(GOOD, **changes))[name]
    assert finding.state == OK and found in finding.found


@pytest.fixture
def machine(monkeypatch):
    """Sets the machine that the command sees; what it was asked."""
    asked = []

    def put(**changes):
        fake = dataclasses.replace(GOOD, **changes)
        monkeypatch.setattr(cli_doctor, "read_machine", lambda *given: asked.append(given) or fake)
        return asked

    return put


@pytest.mark.parametrize(
    "changes, arguments, code",
    [
        ({}, [], 0),
        ({}, ["--strict"], 0),
        ({"load": 0.9}, [], 0),
        ({"load": 0.9}, ["--strict"], 1),
        ({"compiler": ""}, [], 1),
    ],
)
def test_exit_codes(machine, capsys, changes, arguments, code):
    machine(**changes)
    assert main(["doctor", "--json", *arguments]) == code


def test_rows_have_what_to_do_below_them(machine, capsys):
    asked = machine(load=0.9, compiler="")
    main(["doctor", "--target", "llvm -mcpu=x", "--store", "here.sqlite"])
    lines = capsys.readouterr().out.splitlines()
    assert asked == [("llvm -mcpu=x", "here.sqlite")]
    place = lines.index(f"warning  load          {BUSY}")
    assert lines[place + 1].strip().startswith("-> end other processes")
    assert lines[-1] == "1 problem, 1 warning" and max(map(len, lines)) <= 100
    assert len([line for line in lines if not line.startswith(" ")]) == len(doctor.CHECKS) + 1


def test_json_has_each_check(machine, capsys):
    machine(load=0.9)
    main(["doctor", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["check"] for row in rows] == list(doctor.CHECKS)
    [load] = [row for row in rows if row["check"] == "load"]
    assert (load["state"], load["found"]) == ("warning", BUSY)
    assert set(load) == {"check", "state", "found", "advice"}
