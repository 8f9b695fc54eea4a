# SPDX-License-Identifier: Apache-2.0
"""Nets of the zoo that no package has ready: written with torch's own layers, as tutorials and
papers have them. Only the exporter imports it, in an environment with torch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

VOCABULARY = 1000


class Last(nn.Module):
    """A recurrent layer, then a dense one on each step, or on the last step alone."""

    def __init__(self, first: nn.Module, cell: nn.RNNBase, outputs: int, is_last: bool) -> None:
        super().__init__()
        self.first, self.cell, self.is_last = first, cell, is_last
        self.head = nn.Linear(cell.hidden_size * (2 if cell.bidirectional else 1), outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.cell(self.first(x))
        return self.head(steps[:, -1] if self.is_last else steps)


class UNet(nn.Module):
    """Encoder and decoder of convolutions with skips; upsampling by transposed convolutions."""

    def __init__(self, channels: tuple[int, ...] = (16, 32, 64, 128)) -> None:
        super().__init__()
        pairs = list(zip(channels, channels[1:]))
        self.first = _double(3, channels[0])
        self.down = nn.ModuleList(_double(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[::-1])
        self.merge = nn.ModuleList(_double(2 * a, a) for a, _ in pairs[::-1])
        self.head = nn.Conv2d(channels[0], 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = [self.first(x)]
        for layer in self.down:
            skips.append(layer(nn.functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


class CRNN(nn.Module):
    """Reads a line of text: convolutions, then a recurrent layer along the line."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_conv_pool(1, 32, 2),
            *_conv_pool(32, 64, 2),
            *_conv_pool(64, 128, (4, 1)),
            *_conv_pool(128, 128, (2, 1)),
        )
        self.cell = nn.LSTM(128, 96, bidirectional=True, batch_first=True)
        self.head = nn.Linear(192, 80)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.features(x).squeeze(2).transpose(1, 2)
        return self.head(self.cell(columns)[0])


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Gated(nn.Module):
    """WaveNet's unit: tanh of a dilated convolution by the sigmoid of another, and a skip."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.pad = nn.ConstantPad1d((dilation, 0), 0.0)
        self.both = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.both(self.pad(x)).chunk(2, dim=1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate))


class WideAndDeep(nn.Module):
    """Columns of numbers straight to the sum; these and embeddings through a deep net."""

    def __init__(self, numbers: int, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.wide = nn.Linear(numbers, 1)
        self.deep = nn.Sequential(*_dense(numbers + 8 * 16, *[128] * depth), nn.Linear(128, 1))

    def forward(self, columns: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        both = torch.cat([columns, self.embed(categories).flatten(1)], dim=1)
        return torch.sigmoid(self.wide(columns) + self.deep(both))


class DLRM(nn.Module):
    """Embeddings and a bottom net; products of all pairs; a top net."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.bottom = nn.Sequential(*_dense(numbers, 64, 32))
        self.top = nn.Sequential(*_dense(32 + 81, 128, 64), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, columns: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(columns)
        rows = torch.cat([dense.unsqueeze(1), self.embed(categories)], dim=1)
        pairs = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([dense, pairs], dim=1))


class FTTransformer(nn.Module):
    """A token a column, then a transformer, for tables."""

    def __init__(self, numbers: int, width: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(numbers, width))
        self.embed = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, columns: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        tokens = torch.cat([columns.unsqueeze(2) * self.weight, self.embed(categories)], dim=1)
        return self.head(self.encoder(tokens).mean(1))


class TextCNN(nn.Module):
    """Convolutions of several widths over embedded words, the largest of each."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, 100, k) for k in (3, 4, 5))
        self.head = nn.Linear(300, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = self.embed(x).transpose(1, 2)
        return self.head(torch.cat([torch.relu(c(words)).amax(2) for c in self.convs], dim=1))


class PointNet(nn.Module):
    """A dense net on each point, the largest of all points, a dense net."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 64, 128, 512)
        self.points = nn.Sequential(
            *(
                layer
                for a, b in zip(widths, widths[1:])
                for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
            )
        )
        self.head = nn.Sequential(*_dense(512, 256), nn.Linear(256, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.points(x).amax(2))


def _double(a: int, b: int) -> nn.Sequential:
    def one(inputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()]

    return nn.Sequential(*one(a), *one(b))


def _conv_pool(a: int, b: int, pool: int | tuple[int, int]) -> list[nn.Module]:
    return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(pool)]


def _dense(*widths: int) -> list[nn.Module]:
    pairs = zip(widths, widths[1:])
    return [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())]


def _up(a: int, b: int, stride: int = 2, padding: int = 1) -> list[nn.Module]:
    return [nn.ConvTranspose2d(a, b, 4, stride, padding, bias=False), nn.BatchNorm2d(b), nn.ReLU()]


def _down1d(a: int, b: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv1d(a, b, kernel, stride), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(4)]


def _separable(channels: int) -> list[nn.Module]:
    depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
    point = nn.Conv2d(channels, channels, 1)
    return [
        *(depth, nn.BatchNorm2d(channels), nn.ReLU()),
        *(point, nn.BatchNorm2d(channels), nn.ReLU()),
    ]


def _words() -> nn.Embedding:
    return nn.Embedding(VOCABULARY, 128)


# Name -> what makes the net for a size.
BUILDERS: dict[str, Callable[[int], nn.Module]] = {
    "lstm_language": lambda _: Last(_words(), nn.LSTM(128, 256, 2, batch_first=True), 1000, False),
    "bilstm_tagger": lambda _: Last(
        _words(), nn.LSTM(128, 128, batch_first=True, bidirectional=True), 20, False
    ),
    "gru_classifier": lambda _: Last(_words(), nn.GRU(128, 128, batch_first=True), 5, True),
    "lstm_forecast": lambda _: Last(nn.Identity(), nn.LSTM(7, 64, batch_first=True), 7, True),
    "gru_forecast": lambda _: Last(nn.Identity(), nn.GRU(7, 64, 2, batch_first=True), 7, True),
    "crnn": lambda _: CRNN(),
    "unet": lambda _: UNet(),
    "autoencoder": lambda _: nn.Sequential(
        *(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()),
        *_up(64, 32),
        *(nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid()),
    ),
    "dcgan_generator": lambda _: nn.Sequential(
        *_up(100, 256, 1, 0),
        *_up(256, 128),
        *_up(128, 64),
        *_up(64, 32),
        *(nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()),
    ),
    "fsrcnn": lambda _: nn.Sequential(
        *(nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)),
        *(layer for _ in range(4) for layer in (nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12))),
        *(nn.Conv2d(12, 56, 1), nn.PReLU(56)),
        nn.ConvTranspose2d(56, 1, 9, 2, 4, output_padding=1),
    ),
    "espcn": lambda _: nn.Sequential(
        *(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()),
        *(nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)),
    ),
    "m5": lambda _: nn.Sequential(
        *_down1d(1, 32, 80, 4),
        *_down1d(32, 32, 3),
        *_down1d(32, 64, 3),
        *_down1d(64, 64, 3),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 35), nn.LogSoftmax(dim=1)),
    ),
    "tcn": lambda _: nn.Sequential(
        nn.Conv1d(1, 32, 16, stride=8),
        *(Residual(nn.Conv1d(32, 32, 3, padding=2**k, dilation=2**k), nn.ReLU()) for k in range(6)),
        nn.Conv1d(32, 10, 1),
    ),
    "wavenet": lambda _: nn.Sequential(
        nn.Conv1d(1, 32, 4, stride=4),
        *(Gated(32, 2**k) for k in range(8)),
        *(nn.ReLU(), nn.Conv1d(32, 64, 1)),
    ),
    "keyword_ds_cnn": lambda _: nn.Sequential(
        *(nn.Conv2d(1, 64, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(64), nn.ReLU()),
        *(layer for _ in range(4) for layer in _separable(64)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12), nn.Softmax(dim=1)),
    ),
    "mlp": lambda size: nn.Sequential(*_dense(size, 128, 64), nn.Linear(64, 10)),
    "deep_mlp": lambda size: nn.Sequential(*_dense(size, *[512] * 8), nn.Linear(512, 10)),
    "tabular_resnet": lambda size: nn.Sequential(
        nn.Linear(size, 192),
        *(
            Residual(nn.BatchNorm1d(192), nn.Linear(192, 384), nn.ReLU(), nn.Linear(384, 192))
            for _ in range(4)
        ),
        *(nn.BatchNorm1d(192), nn.ReLU(), nn.Linear(192, 10)),
    ),
    "wide_and_deep": WideAndDeep,
    "dlrm": DLRM,
    "ft_transformer": FTTransformer,
    "text_cnn": lambda _: TextCNN(),
    "pointnet": lambda _: PointNet(),
}
