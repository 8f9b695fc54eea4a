#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of Collage beside the frameworks that a user could pick instead, net by net.

Each contestant runs in its own process with as many threads, woken one at a time in rounds of
random order. See docs/peers.md. Test: bench/test_peers.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import models
from peer.build import COLLAGE, STOCK, build
from peer.contestants import PEERS, untouched_variables
from peer.record import failed_alone, make_record, ours_failed, slowest_parts
from peer.report import net_text, plot, summary_text
from peer.served import stock_library
from peer.sides import with_threads
from peer.versions import versions

ROOT = Path(__file__).resolve().parent.parent
CONTESTANTS = (COLLAGE, "alone", *PEERS, STOCK)
# Whose outputs count as right: the first that has some.
REFERENCES = (*PEERS, STOCK, "tvm alone")
# A user's variables on which figures depend.
_THREAD_VARIABLES = (
    *("OMP_P", "OMP_WAIT_POLICY", "GOMP_", "KMP_", "TVM_BIND_THREADS", "MKL_"),
    *("COLLAGE_FLUSH_DENORMALS", "COLLAGE_SPREAD_THREADS"),
)
# Three kinds of net in minutes; all of them take hours.
DEFAULT_NETS = "mobilenetv2,dcgan,resnet50"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    began = time.monotonic()
    for name, reason in options.left_out.items():
        print(f"left out: {name} ({reason})")
    records = _known(options)
    for net in options.nets:
        if net.name in records:
            print(f"{net.name}: already in {options.output}, --fresh measures it again")
        elif time.monotonic() - began > options.budget:
            print(f"{net.name}: left out, the budget of {options.budget:g} s is used up")
            continue
        else:
            try:
                records[net.name] = measure(net, options)
            except FileNotFoundError as error:
                print(f"{net.name}: left out: {error}", file=sys.stderr)
                continue
            with options.output.open("a") as stream:
                stream.write(json.dumps(records[net.name]) + "\n")
        print(net_text(records[net.name]), flush=True)
    chosen = [records[net.name] for net in options.nets if net.name in records]
    if not chosen:
        print("peers: nothing was measured", file=sys.stderr)
        return 1
    print(summary_text(chosen))
    picture = options.output.with_suffix(".png")
    if plot(chosen, picture):
        print(f"plot: {picture}")
    return 1 if COLLAGE in options.contestants and any(map(ours_failed, chosen)) else 0


def measure(net: models.Net, options: argparse.Namespace) -> dict[str, Any]:
    """One net's record; whoever fails stands in it with the reason. FileNotFoundError for a real
    net whose file is not there."""
    from tvm.relay.collage.exec.resolve import path_of
    from tvm.relay.collage.measure import Contestant, compare

    print(f"{net.name} ...", flush=True)
    model = net.build(options.batch)
    with tempfile.TemporaryDirectory(prefix="collage-peers-") as name:
        folder = Path(name)
        file, inputs = models.save(net, model, folder)
        del model
        contestants, failures, facts = [], {}, {}
        environment = with_threads(options.threads)
        for side in (COLLAGE, STOCK):
            if side not in options.contestants:
                continue
            settings = {
                "alone": "alone" in options.contestants,
                "timeout": options.build_timeout,
                "backends": list(options.backends),
                "config": options.collage,
            }
            print(f"  building {side}, which may take minutes: see {folder}/{side}.log", flush=True)
            built = build(side, file, folder, options.threads, settings)
            if built.failure:
                failures[side] = built.failure
            for item, library in built.libraries.items():
                if side == STOCK:
                    arguments = {"library": library, "inputs": inputs}
                    factory, theirs = path_of(stock_library), environment | untouched_variables()
                    contestants.append(Contestant(item, factory, arguments, theirs))
                else:
                    contestants.append(
                        Contestant.of_library(item, library, inputs, environment=environment)
                    )
            facts[f"{side}_build_seconds"] = built.seconds
            if side == COLLAGE:
                facts |= {"ships": built.ships, "parts": slowest_parts(built.report)}
                failures |= failed_alone(built.report) if settings["alone"] else {}
        for peer in options.contestants:
            if peer in PEERS:
                contestants.append(PEERS[peer].contestant(file, inputs, environment))
        names = [item.name for item in contestants]
        print(f"  measuring {', '.join(names)}", flush=True)
        comparisons = compare(
            contestants,
            [name for name in REFERENCES if name in names],
            options.rounds,
            options.rtol,
            open_timeout=options.build_timeout,
            give_up_ratio=options.give_up_ratio,
        )
    key = {"net": net.name, **_conditions(options)}
    facts |= {"load": os.getloadavg()[0]}
    return make_record(key, comparisons, [*PEERS, STOCK], failures, facts)


def _conditions(options: argparse.Namespace) -> dict[str, Any]:
    """What a record's figures depend on beside the net; equal ones need no second measurement."""
    return {
        "batch": options.batch,
        "threads": options.threads,
        "asked": options.contestants,
        "rounds": options.rounds,
        "rtol": options.rtol,
        "give_up_ratio": options.give_up_ratio,
        "build_timeout": options.build_timeout,
        "variables": {k: v for k, v in os.environ.items() if k.startswith(_THREAD_VARIABLES)},
        "backends": options.backends,
        "collage": options.collage,
        "versions": versions(options.contestants),
        "machine": describe_machine(),
    }


def describe_machine() -> dict[str, Any]:
    """What the figures depend on."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return {
        "vendor": fields.get("vendor_id", "unknown"),
        "cpu": fields.get("model name", "unknown"),
        "cores": len(os.sched_getaffinity(0)),
    }


def _known(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Records that are there already for the same conditions, by net."""
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.fresh or not options.output.exists():
        options.output.write_text("")
        return {}
    records = [json.loads(line) for line in options.output.read_text().splitlines() if line.strip()]
    # Through JSON, as the records were.
    wanted = json.loads(json.dumps(_conditions(options)))
    return {
        record["net"]: record
        for record in records
        if all(record.get(name) == value for name, value in wanted.items())
        # What failed is tried again: its cause may be gone.
        and not (COLLAGE in options.contestants and ours_failed(record))
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    from tvm.relay.collage.options import PREFIX, check_options
    from tvm_collage.threads import default_threads

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--nets",
        default=DEFAULT_NETS,
        help=f"with commas between, or all (hours); {DEFAULT_NETS} by default",
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument(
        "--contestants",
        help=f"with commas between, of {', '.join(CONTESTANTS)}; all that are installed by default",
    )
    parser.add_argument(
        "--backends",
        help="external backends of Collage, with commas between; all that are available by default",
    )
    parser.add_argument("--skip-stock", action="store_true", help="without TVM alone (slow builds)")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--measure-seconds", type=float, help="time that Collage runs a candidate")
    parser.add_argument(
        "--collage",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of Collage; the value as JSON (true, 0.5) or text",
    )
    parser.add_argument("--budget", type=float, default=float("inf"), help="s; no net starts after")
    parser.add_argument("--build-timeout", type=float, default=3600.0, help="seconds")
    parser.add_argument("--give-up-ratio", type=float, default=10.0)
    parser.add_argument("--rtol", type=float, default=1e-3, help="largest error of outputs")
    parser.add_argument("--fresh", action="store_true", help="forget what the output file holds")
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench/peers.jsonl")
    options = parser.parse_args(arguments)
    for name in ("batch", "threads", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    try:
        options.nets = models.find(options.nets)
        options.contestants, options.left_out = _chosen(options.contestants)
        options.backends = _backends(options.backends)
        options.collage = dict(_setting(text) for text in options.collage)
        if options.measure_seconds is not None:
            options.collage["measure_seconds"] = options.measure_seconds
        check_options({f"{PREFIX}{name}": value for name, value in options.collage.items()})
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:  # RuntimeError: a backend that cannot run here
        parser.error(str(error))
    if options.skip_stock:
        options.contestants = [name for name in options.contestants if name != STOCK]
    return options


def _chosen(text: str | None) -> tuple[list[str], dict[str, str]]:
    """Contestants that take part, and those left out with the reason; ValueError for one that was
    asked for and is not known or not installed."""
    names = list(CONTESTANTS) if text is None else [item.strip() for item in text.split(",")]
    unknown = [name for name in names if name not in CONTESTANTS]
    if unknown:
        raise ValueError(
            f"unknown contestant {', '.join(unknown)}: choose of {', '.join(CONTESTANTS)}"
        )
    missing = {
        name: f"not installed: pip install {PEERS[name].package}"
        for name in names
        if name in PEERS and not PEERS[name].is_installed()
    }
    if len(set(names)) < len(names):
        raise ValueError(f"a contestant is named twice: {', '.join(names)}")
    if "alone" in names and COLLAGE not in names:
        raise ValueError(f"contestant alone needs {COLLAGE}, whose guard builds these plans")
    if text is not None and missing:
        name, reason = next(iter(missing.items()))
        raise ValueError(f"contestant {name} is {reason}")
    return [name for name in names if name not in missing], missing


def _backends(text: str | None) -> dict[str, str]:
    """Versions of Collage's backends that take part; ValueError for one that is unknown or cannot
    run here."""
    from tvm.relay.collage.backends import list_backends, require_backend

    if text is None:
        found = [each for each in list_backends() if not each.trades_accuracy]
        found = [each for each in found if each.available() is None]
    else:
        found = [require_backend(item.strip()) for item in text.split(",") if item.strip()]
    return {backend.name: backend.version() for backend in found}


def _setting(text: str) -> tuple[str, Any]:
    """A Collage option as name and value; the value is JSON, or text."""
    from tvm.relay.collage.options import option_table

    name, equals, value = text.partition("=")
    known = [row[0] for row in option_table()]
    if not equals or name not in known:
        raise ValueError(f"--collage takes NAME=VALUE with one of {', '.join(known)}, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())
