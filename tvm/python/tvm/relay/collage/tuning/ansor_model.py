# SPDX-License-Identifier: Apache-2.0
"""Ansor's cost model, which remembers the trials of earlier tasks, nets and processes.

TVM's own learns from what one process has tried, and guesses until that is a hundred trials; a
log's lines do not help it, since a schedule's features need the net that it was found for. So the
features of the last trials are kept in a file beside the log. Test: tuning/test_ansor_model.py.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tvm import auto_scheduler
from tvm.auto_scheduler import MeasureInput, MeasureResult
from tvm.auto_scheduler.cost_model import xgb_model
from tvm.auto_scheduler.feature import get_per_store_features_from_measure_pairs

from ..files.text import write_whole
from .tuner import learning

# A fit to so many takes 2 s of CPU, and the file 5 MB; each round of trials ends with both.
KEPT_TRIALS = 2000
# Below these it would be no better than chance.
_LEAST_TRIALS = 16
_BOOST_ROUNDS = 300


def model_path(log: str) -> Path:
    """Return where the trials of a log are remembered."""
    return Path(f"{log}.learnt.npz")


class KeptModel(auto_scheduler.XGBModel):
    """TVM's model, fitted to the trials that `path` remembers and to new ones, which go there.

    A file that is damaged or of another form is forgotten, with a warning.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(seed=0, num_warmup_sample=-1)
        self._path = path
        # By trial that ran: a row of features for each store, seconds, its task.
        self._features: list[np.ndarray] = []
        self._seconds: list[float] = []
        self._tasks: list[str] = []
        self._load()
        self._fit()

    @property
    def trials(self) -> int:
        """The number of trials that it has learnt from."""
        return len(self._seconds)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Do nothing: TVM's search calls it only before it makes more trials, which the last ones
        of each search would never come to."""

    def learn(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from new trials; those that failed teach nothing, to TVM's model neither."""
        ran = [pair for pair in zip(inputs, results, strict=True) if not pair[1].error_no]
        if not ran:
            return
        features, _, _ = get_per_store_features_from_measure_pairs(*map(list, zip(*ran)))
        for (entry, result), rows in zip(ran, features, strict=True):
            costs = [float(cost) for cost in result.costs]
            self._features.append(np.asarray(rows, "float32"))
            self._seconds.append(sum(costs) / len(costs))
            self._tasks.append(_digest(entry.task))
        for kept in (self._features, self._seconds, self._tasks):
            del kept[:-KEPT_TRIALS]
        self._fit()
        self._save()

    def _fit(self) -> None:
        if len(self._seconds) < _LEAST_TRIALS:
            return
        names, tasks = np.unique(self._tasks, return_inverse=True)
        seconds = np.asarray(self._seconds)
        best = np.full(len(names), np.inf)
        np.minimum.at(best, tasks, seconds)
        speed = best[tasks] / seconds  # of the fastest trial of its task
        features = np.empty(len(seconds), dtype=object)
        features[:] = self._features
        matrix = xgb_model.pack_sum_xgbmatrix(features, speed, tasks, speed)
        stop = xgb_model.CustomCallback(
            stopping_rounds=50,
            metric="tr-p-rmse",
            fevals=[xgb_model.pack_sum_rmse],
            evals=[(matrix, "tr")],
            maximize=False,
            verbose_eval=0,
        )
        self.bst = xgb_model.xgb.train(
            self.xgb_params,
            matrix,
            num_boost_round=_BOOST_ROUNDS,
            obj=xgb_model.pack_sum_square_error,
            callbacks=[stop],
        )

    def _load(self) -> None:
        if not self._path.exists():
            return
        problem = f"in {self._path} is forgotten"
        with learning(problem), np.load(self._path, allow_pickle=False) as kept:
            features = np.split(kept["features"], np.cumsum(kept["counts"])[:-1])
            seconds, tasks = kept["seconds"].tolist(), kept["tasks"].tolist()
            if not len(features) == len(seconds) == len(tasks):
                raise ValueError("its parts are of different lengths")
            self._features, self._seconds, self._tasks = features, seconds, tasks

    def _save(self) -> None:
        content = io.BytesIO()
        np.savez_compressed(
            content,
            counts=np.asarray([len(rows) for rows in self._features]),
            features=np.concatenate(self._features),
            seconds=np.asarray(self._seconds),
            tasks=np.asarray(self._tasks),
        )
        with learning(f"cannot be kept in {self._path}", "; make room there"):
            write_whole(str(self._path), content.getvalue())


def _digest(task: auto_scheduler.SearchTask) -> str:
    """Return what names the kernel and the target, on each of which its best trial differs."""
    return hashlib.sha256(f"{task.workload_key}|{task.target}".encode()).hexdigest()[:16]
