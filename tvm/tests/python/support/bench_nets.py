# SPDX-License-Identifier: Apache-2.0
"""Small nets that stand for those of the benchmarks."""

from pathlib import Path

import models
from models.graph import Graph


def two_convolutions(batch, channels):
    """A 3x3 convolution of an image of 16 x 16, and another with relu."""
    g = Graph("small")
    x = g.conv(g.input("x", (batch, channels, 16, 16)), channels, 3)
    return g.model(g.relu(g.conv(x, channels, 3)))


def small_classifier(batch):
    """A convolution with its norm and relu, and a layer of four classes."""
    g = Graph("small")
    x = g.relu(g.norm(g.conv(g.input("x", (batch, 3, 8, 8)), 8, 3)))
    return g.model(g.classify(x, 4))


def know_nets(monkeypatch, channels):
    """The benches find "small", of two convolutions, and "bad", whose file is not there."""
    builders = {
        "small": lambda batch: two_convolutions(batch, channels),
        "bad": lambda batch: Path("no/such/file").read_bytes(),
    }
    for name, build in builders.items():
        monkeypatch.setitem(models.NETS, name, models.Net(name, name, build, "test"))
