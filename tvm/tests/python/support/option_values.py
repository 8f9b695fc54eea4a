# SPDX-License-Identifier: Apache-2.0
"""Another value for each option, for tests that want none to be its default."""


def changed(name, value):
    """Another value of the same type that is allowed."""
    others = {
        "byoc_fusion_style": ["dnnl.TVMFusion", "with.dots.ArbitraryFusion"],
        "placement_allow": ["machine", "weights"],
        "effort": "quick",
        "verify": "all",
        "progress": "json",
        "log_level": "debug",
        "tuning_log": ["a.log", "folder"],
        "transfer_log": ["ansor.log"],
        "graph_search": "local",
        "tuner": "ansor",
        "tune_model": "random",
    }
    if name in others:
        return others[name]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else value + "x"
