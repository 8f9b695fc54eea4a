# SPDX-License-Identifier: Apache-2.0
"""Reports made by hand, in the form of their JSON: residual nets of any length on four backends
whose costs are made up, so that pictures of them can be looked at without a search."""

import json
import random

from tvm.relay.collage.report import read_report

HOST = "llvm -keys=cpu -mcpu=x86-64-v3"
BACKENDS = ("alpha", "beta", "gamma")  # beside TVM
PLANS = {
    "collage": ("mixed", 1.0),
    "alpha": ("alpha", 1.21),
    "beta": ("beta", 1.33),
    "tvm": ("tvm", 2.74),
}
_MACHINE = {"cpu": "Made-up CPU, family 25", "features": ["avx2", "fma"], "threads": 2}
_SPEED = {"alpha": 1.0, "beta": 1.15, "gamma": 1.4, "tvm": 2.6}
_ATTRS = {"nn.conv2d": {"strides": [1, 1], "padding": [1, 1, 1, 1], "groups": 1}}
_WORK = {"nn.conv2d": 100e-6, "nn.dense": 30e-6, "nn.softmax": 9e-6}


class _Net:
    """Nodes of a graph, in the order in which they are added."""

    def __init__(self):
        self.nodes = []

    def add(self, kind, op="", inputs=(), type_="float32[1, 64, 56, 56]", name=""):
        index = len(self.nodes)
        self.nodes.append(
            {
                "index": index,
                "kind": kind,
                "op": op,
                "name": name,
                "type": type_,
                "attrs": dict(_ATTRS.get(op, {})),
                "inputs": list(inputs),
                "is_kernel": kind == "call",
                "is_opaque": False,
                "is_result": False,
                "device": "",
            }
        )
        return index

    def call(self, op, *inputs, **more):
        return self.add("call", op, inputs, **more)

    def conv(self, value, number):
        """A convolution with bias and relu; its three nodes."""
        weight = self.add("const", type_="float32[64, 64, 3, 3]")
        conv = self.call("nn.conv2d", value, weight, name=f"/layer{number}/Conv")
        bias = self.call("nn.bias_add", conv, self.add("const", type_="float32[64]"))
        return [conv, bias, self.call("nn.relu", bias, name=f"/layer{number}/Relu")]


def residual_net(blocks):
    """The net, and the groups of nodes that backends take as one."""
    net = _Net()
    value = net.add("var", name="data", type_="float32[1, 64, 56, 56]")
    groups = []
    for number in range(blocks):
        first = net.conv(value, 2 * number)
        second = net.conv(first[-1], 2 * number + 1)
        total = net.call("add", second[-1], value, name=f"/block{number}/Add")
        groups += [first, second, [total]]
        value = total
    pool = net.call("nn.global_avg_pool2d", value, type_="float32[1, 64, 1, 1]")
    flat = net.call("nn.batch_flatten", pool, type_="float32[1, 64]")
    weight = net.add("const", type_="float32[1000, 64]")
    dense = net.call("nn.dense", flat, weight, type_="float32[1, 1000]", name="/fc/Gemm")
    soft = net.call("nn.softmax", dense, type_="float32[1, 1000]")
    groups += [[pool], [flat], [dense], [soft]]
    net.nodes[soft]["is_result"] = True
    return net.nodes, groups


def record(report):
    """The record of a report's JSON values, which may be changed by hand."""
    return read_report(json.loads(json.dumps(report)), "it")


def made(*given, **changes):
    """made_report as a record."""
    return record(made_report(*given, **changes))


def made_report(blocks=2, seed=0, trials=0, has_region=False, **changes):
    """A report of the plans PLANS, and of so many that a search of whole plans tried; 7 operators a
    block, 4 beside. has_region: the plan alpha is one part."""
    nodes, groups = residual_net(blocks)
    draw = random.Random(seed)
    costed = _costed(nodes, groups, draw)
    parts, places = [], {}
    for plan, (who, _) in PLANS.items():
        places[plan] = []
        for group in groups:
            part = _part(nodes, group, who, costed)
            if part is not None:
                places[plan].append(len(parts))
                parts.append(part)
    if has_region:
        places["alpha"] = [len(parts)]
        parts.append(
            _region(groups, [cost for (name, _), cost in costed.items() if name == "alpha"])
        )
    places.update((f"trial-{k + 1}", places["alpha"]) for k in range(trials))
    total = sum(part["cost"]["seconds"] for part in (parts[k] for k in places["collage"]))
    report = {
        "summary": "plan collage",
        "plan": "collage",
        "host": HOST,
        "executor": "graph",
        "guard_skipped": "",
        "unverified": "",
        "original": None,
        "plans": [*(_plan(name, total) for name in PLANS), _failed_plan()],
        "placement": [
            {"backend": name, "ops": "nn.conv2d", "parts": 3, "operators": 9} for name in BACKENDS
        ],
        "functions": [_function(nodes, costed, total)],
        "seconds": {"prepare": 0.4, "partition": 12.5, "guard": 6.1},
        "costs": {
            **{"measured": 40, "from_store": 3, "from_memory": 12, "failed": {"crashed": 1}},
            **{"noisy": 1, "busy": 0, "verified": 30, "not_verified": 2},
        },
        "kernels": [_kernel()],
        "schedules": {"transferred": 12},
        "transfers": {"adapted": 20, "invalid": 3},
        "tensors": {
            "inputs": [["x", [1, 3, 8, 8], "float32"]],
            "outputs": [["output_0", [1, 3, 8, 8], "float32"]],
        },
        "colours": {},
        "graph_search": _graph_search(total),
        "decision": None,
        "placements": {
            "functions": [
                {
                    **{"name": "main", "key": "0" * 16, "weights": "1" * 16},
                    "nodes": [_placed_node(node) for node in nodes],
                    "parts": parts,
                }
            ],
            "plans": [_seen_plan(plan, found) for plan, found in places.items()],
        },
    }
    return {**report, **changes}


def _costed(nodes, groups, draw):
    """Costs of each group on each backend, by (backend, nodes); of gamma a few fail."""
    found = {}
    for group in groups:
        work = sum(_WORK.get(nodes[index]["op"], 4e-6) for index in group)
        for backend, speed in _SPEED.items():
            seconds = work * speed * draw.uniform(0.6, 1.4)
            fails = backend == "gamma" and draw.random() < 0.2
            found[backend, tuple(group)] = {
                "status": "crashed" if fails else "measured",
                "seconds": None if fails else seconds,
                "message": "signal 11" if fails else "",
                "flags": ["noisy"] if draw.random() < 0.05 else [],
            }
    return found


def _part(nodes, group, who, costed):
    """What a plan has for a group: the fastest for `mixed`; nothing where TVM has it anyhow."""
    known = {name: costed[name, tuple(group)] for name in _SPEED}
    usable = {name: cost for name, cost in known.items() if cost["seconds"] is not None}
    backend = min(usable, key=lambda n: usable[n]["seconds"]) if who == "mixed" else who
    if backend == "tvm" and who != "mixed":
        return None
    ops = ", ".join(nodes[index]["op"] for index in group)
    return {
        "backend": "llvm" if backend == "tvm" else backend,
        "rule": f"combine.{backend}",
        "label": f"{backend}({ops})",
        "nodes": list(group),
        "composites": [],
        "is_primitive": backend != "tvm",
        "cost": known[backend],
    }


def _region(groups, costs):
    """All operators as one part."""
    seconds = 0.9 * sum(cost["seconds"] for cost in costs)
    return {
        **{"backend": "alpha", "rule": "region", "label": "alpha(all)", "composites": []},
        **{"nodes": [index for group in groups for index in group], "is_primitive": True},
        "cost": {"status": "measured", "seconds": seconds, "message": "", "flags": []},
    }


def _function(nodes, costed, total):
    names = ("tvm", *BACKENDS)
    refused = [node["index"] for node in nodes if node["op"] == "add"]
    reason = "attribute layout is NCHW8c, and only NCHW is taken"
    rows = [
        {"backend": name, "rule": f"combine.{name}", "nodes": list(group), "cost": cost}
        for (name, group), cost in costed.items()
        if not (name == "gamma" and set(group) & set(refused))
    ]
    failed = {"backend": "gamma", "ops": "nn.conv2d", "rule": "combine.gamma", "status": "crashed"}
    return {
        "function": "main",
        "nodes": len(nodes),
        "candidates": len(rows),
        "costs": {"candidates": 90, "distinct": 60, "asked": 55, "rounds": 4, "never_needed": 5},
        "seconds": total,
        "transitions": [],
        "is_optimal": True,
        "search": f"{len(nodes)} nodes, {len(rows)} candidates, 4 rounds; optimal",
        "cuts": ["rule combine: limit max_depth cut 3"],
        "parts": [],
        "backends": [],
        "failures": [{**failed, "message": "signal 11", "count": 2}],
        "unplaced": [_unplaced()],
        "skipped": "",
        "graph": {
            "nodes": nodes,
            "backends": [
                {"name": name, "is_external": name != "tvm", "device": "cpu"} for name in names
            ],
            "costed": rows,
            "reasons": [
                {
                    **{"backend": "gamma", "why": "refused", "message": reason, "nodes": refused},
                    **{"rule": "gamma.add", "candidate": None, "instead_seconds": None},
                }
            ],
            "refusals": [
                {
                    **{"backend": "gamma", "rule": "gamma.add", "nodes": [index]},
                    **{"ops": ["add"], "reason": reason},
                }
                for index in refused
            ],
        },
    }


def _unplaced():
    return {
        **{"op": "add", "backend": "gamma", "why": "slower", "message": "", "rule": "gamma.add"},
        **{"operators": 2, "seconds": 3e-6, "backend_seconds": 8e-6, "instead_seconds": 3e-6},
        "regions": 1,
    }


def _plan(name, total):
    _, factor = PLANS[name]
    seconds = total * factor * 1.05
    best = total * PLANS["alpha"][1] * 1.05
    return {
        **{"name": name, "is_single_backend": name != "collage", "is_chosen": name == "collage"},
        **{"status": "measured", "seconds": seconds},
        **{"low": seconds * 0.985, "high": seconds * 1.02, "rounds": 24},
        "ratio_to_best_single": {
            **{"value": best / seconds, "low": best / seconds * 0.97},
            "high": best / seconds * 1.03,
        },
        "ratio_to_chosen": {"value": factor, "low": factor * 0.97, "high": factor * 1.03},
        **{"is_dependent": False, "output_error": 1.2e-6, "message": "", "same_as": ""},
        **{"memory_bytes": 52_000_000, "library_bytes": 9_000_000},
    }


def _failed_plan():
    return {
        **{"name": "gamma", "is_single_backend": True, "is_chosen": False, "status": "crashed"},
        **{"seconds": None, "low": None, "high": None, "rounds": 0, "ratio_to_best_single": None},
        "ratio_to_chosen": None,
        **{"is_dependent": False, "output_error": None, "message": "signal 11 <in> gamma's code"},
        **{"same_as": "", "memory_bytes": 0, "library_bytes": 0},
    }


def _kernel():
    tried = [("jit", 31e-6), ("winograd", 24e-6)]
    return {
        **{"backend": "alpha", "step": "nn.conv2d 3x3, 64 to 64", "kernel": "winograd"},
        "is_usual": False,
        "tried": [
            {"kernel": name, "status": "measured", "seconds": seconds, "message": ""}
            for name, seconds in tried
        ],
    }


def _graph_search(total):
    draw, trials, best = random.Random(3), [], total * 1.06
    for number in range(30):
        seconds = None if number % 9 == 4 else total * draw.uniform(1.0, 1.5)
        best = min(best, seconds or best)
        trials.append(
            {
                **{"name": f"trial-{number + 1}", "plan": f"{number} alpha"},
                **{"status": "measured" if seconds else "crashed"},
                **{"seconds": seconds, "after_seconds": 4.0 * number, "best_seconds": best},
                **{"message": "" if seconds else "signal 11", "is_stored": False},
            }
        )
    return {
        **{"strategy": "evolutionary", "genes": 12, "op_level_seconds": total * 1.06},
        **{"trials": trials, "ended": "all trials were made"},
    }


def _placed_node(node):
    text = node["op"] or node["kind"]
    return {"text": text, "types": node["type"], "key": f"{node['index']:016x}"}


def _seen_plan(plan, places):
    return {
        "plan": plan,
        "made_with": {
            **{"collage": "0.1.0", "tvm": "0.19.0 LLVM 22.1.8", "backends": {"alpha": "3.2"}},
            **{"target": HOST, "opt_level": 3, "machine": _MACHINE, "tuning": None},
        },
        "kernels": [],
        "parts": {"main": places},
    }


if __name__ == "__main__":
    print(json.dumps(made_report()))
