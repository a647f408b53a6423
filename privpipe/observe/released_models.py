"""Integral privacy of a released model: how many small changes of its data give the same model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from privpipe.blocks.parameters import require_integer
from privpipe.border import bordered
from privpipe.errors import DataError, PrivpipeError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelGenerators", "linear_model", "model_generators", "tree_rules"]

Change = tuple[int, int]
"""The number of a distinct record, and 1 to add one or -1 to delete one."""
Fit = Callable[["pd.DataFrame"], Hashable]
"""Trains a model on records and returns its canonical form, equal for models that are the same."""


@dataclass(frozen=True)
class ModelGenerators:
    """Minimal sets of changes that give the same model.

    Parameters
    ----------
    sets : int
        Found; of a sample a lower bound.
    common : bool
        Whether one change is in every set that was found.
    exhaustive : bool
        Whether all sets of so many changes were tried.
    fits : int
        Models that were trained, the released one included.
    """

    sets: int
    common: bool
    exhaustive: bool
    fits: int

    def outcome(self, k: int) -> Literal["pass", "fail", "error"]:
        """Whether at least `k` sets keep the model and no change is in all of them; error: a sample cannot show it.

        Examples
        --------
        >>> found = ModelGenerators(sets=4, common=False, exhaustive=False, fits=900)
        >>> found.outcome(3), found.outcome(5)
        ('pass', 'error')
        """
        require_integer("ModelGenerators", "k", k, least=1)
        if self.sets >= k and not self.common:
            return "pass"
        return "fail" if self.exhaustive else "error"


@bordered
def model_generators(
    frame: pd.DataFrame, fit: Fit, *, changes: int = 1, most_fits: int = 20_000, seed: int = 0
) -> ModelGenerators:
    """Count the minimal sets of changes of the training data after which a model is the same (integral privacy).

    A change adds a record equal to one that is there, or deletes one; equal records are alike. A set counts when the
    model is the same after it and after no smaller part of it. Adding and deleting equal records is no change.

    Parameters
    ----------
    frame : pandas.DataFrame
        The training data, n records of D distinct ones.
    fit : callable
        Takes a frame like `frame`, returns the canonical form of the model that is published: rounded coefficients, a
        set of rules; see `tree_rules` and `linear_model`. It must be deterministic and not depend on the order of
        records.
    changes : int
        Records added or deleted at once, at most: 1 (2 D models) or 2 (some 2 D^2).
    most_fits : int
        More models are not trained: of further sets a sample is tried, and the number found is a lower bound.
    seed : int
        Of the sample.

    Returns
    -------
    ModelGenerators

    Raises
    ------
    DataError
        No record, a model that is another for records in another order, or a `fit` that raises an error.
    UsageError

    Notes
    -----
    It judges only the model. k of 3 or more is usual; if it fails, publish fewer digits or a smaller tree.
    Source: Torra and Navarro-Arribas, Integral privacy, CANS 2016; Torra, Navarro-Arribas, Galvan, PSD 2020.

    Examples
    --------
    >>> import pandas as pd
    >>> incomes = pd.DataFrame({"income": [1000, 2000, 3000, 2000, 2000, 1000, 6000, 2000, 10000, 2000, 4000]})
    >>> mean = lambda rows: round(rows["income"].mean(), -3)
    >>> model_generators(incomes, mean).sets, model_generators(incomes, lambda rows: rows["income"].mean()).sets
    (10, 0)
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"model_generators needs a pandas.DataFrame, got {type(frame).__name__}")
    if not callable(fit):
        raise UsageError("model_generators needs a function that trains a model: fit(frame) -> its canonical form")
    require_integer("model_generators", "changes", changes, least=1, most=2)
    require_integer("model_generators", "most_fits", most_fits, least=2)
    if not len(frame):
        raise DataError("the frame has no records: there is no model")
    trials = _Trials(frame.reset_index(drop=True), fit, most_fits, seed)
    single: list[tuple[Change, ...]] = [((number, way),) for number in range(len(trials.counts)) for way in (1, -1)]
    looked = trials.kept(single)
    found = [chosen for chosen, kept in looked.items() if kept]
    exhaustive = len(looked) == len(single)
    if changes == 2:
        free = [chosen[0] for chosen, kept in looked.items() if not kept]
        pairs: list[tuple[Change, ...]] = [
            pair for pair in itertools.combinations_with_replacement(free, 2) if _is_change(pair, trials.counts)
        ]
        more = trials.kept(pairs)
        found += [chosen for chosen, kept in more.items() if kept]
        exhaustive &= len(more) == len(pairs)
    common = bool(found) and bool(set.intersection(*map(set, found)))
    return ModelGenerators(len(found), common, exhaustive, trials.fits)


class _Trials:
    """Models of changed records, trained as often as is allowed."""

    def __init__(self, frame: pd.DataFrame, fit: Fit, most: int, seed: int) -> None:
        import numpy as np

        self._frame, self._fit, self._most, self.fits = frame, fit, most, 0
        self._rng = np.random.default_rng(seed)
        numbers = frame.groupby(list(frame.columns), dropna=False, sort=False).ngroup().to_numpy()
        self.counts = np.bincount(numbers)
        self._places: list[list[int]] = [[] for _ in self.counts]
        for place, number in enumerate(numbers.tolist()):
            if len(self._places[number]) < 2:
                self._places[number].append(place)
        self._released = self._model(frame)
        if self._model(frame.iloc[::-1].reset_index(drop=True)) != self._released:
            raise DataError("fit gives another model for records in another order: sort them, and round figures")

    def _model(self, rows: pd.DataFrame) -> Hashable:
        self.fits += 1
        try:
            return self._fit(rows)
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - a function of the user's
            raise DataError(f"fit failed for {len(rows):,} records: {type(error).__name__}") from None

    def kept(self, sets: list[tuple[Change, ...]]) -> dict[tuple[Change, ...], bool]:
        """Whether the model is the same after each set of changes; of a sample, where these are too many."""
        import numpy as np

        left = self._most - self.fits
        if len(sets) > left:
            sets = [sets[at] for at in np.sort(self._rng.permutation(len(sets))[:left]).tolist()]
        return {chosen: self._keeps(chosen) for chosen in sets}

    def _keeps(self, chosen: tuple[Change, ...]) -> bool:
        import pandas as pd

        gone, added = list[int](), list[int]()
        for at, (number, way) in enumerate(chosen):
            if way > 0:
                added.append(self._places[number][0])
            else:
                gone.append(self._places[number][int(at > 0 and chosen[0] == chosen[1])])
        rows = pd.concat([self._frame.drop(index=gone), self._frame.loc[added]], ignore_index=True)
        return bool(len(rows)) and self._model(rows) == self._released


def _is_change(pair: tuple[Change, Change], counts: Any) -> bool:
    """Whether two changes are one of two records: no record added and deleted, none deleted more often than it is."""
    (first, way), (second, other) = pair
    return first != second or (way == other and (way > 0 or counts[first] > 1))


def linear_model(target: str, digits: int = 2) -> Fit:
    """Fits least squares of a number column on the other number columns; coefficients rounded to `digits`.

    Examples
    --------
    >>> import pandas as pd
    >>> linear_model("y")(pd.DataFrame({"x": [0, 1, 2, 3], "y": [1.0, 3.0, 5.0, 7.0]}))
    (('(intercept)', 1.0), ('x', 2.0))
    """

    def fit(rows: pd.DataFrame) -> Hashable:
        import numpy as np

        names = sorted(name for name in rows.columns if name != target)
        order = np.lexsort([rows[name].to_numpy() for name in (target, *names)])
        sides = np.column_stack([np.ones(len(rows)), *(rows[name].to_numpy(dtype=float) for name in names)])[order]
        found = np.linalg.lstsq(sides, rows[target].to_numpy(dtype=float)[order], rcond=None)[0]
        named = zip(("(intercept)", *names), found.tolist(), strict=True)
        return tuple((name, round(value, digits) + 0.0) for name, value in named)

    return fit


def tree_rules(target: str, *, depth: int = 3, least: int = 1, digits: int = 6) -> Fit:
    """Fits a decision tree that predicts a column; its rules, where leaves that predict the same are merged.

    Parameters
    ----------
    target : str
    depth : int
        Of the tree.
    least : int
        Records in a leaf.
    digits : int
        Of the thresholds.

    Returns
    -------
    callable
        From a frame to the rules: frozenset of (conditions, predicted value). Text columns have one condition for
        each of their values.

    Raises
    ------
    UnsupportedError
        scikit-learn is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"age": [20, 30, 60, 70], "ill": ["no", "no", "yes", "yes"]})
    >>> sorted(tree_rules("ill", depth=1)(rows))
    [((('age', '<=', 45.0),), 'no'), ((('age', '>', 45.0),), 'yes')]
    """

    def fit(rows: pd.DataFrame) -> Hashable:
        import pandas as pd

        try:
            from sklearn.tree import DecisionTreeClassifier
        except ImportError:
            raise UnsupportedError(
                "tree_rules needs scikit-learn, which is not installed: pip install 'privpipe[utility]'"
            ) from None
        rows = rows.sort_values(list(rows.columns), key=lambda column: column.astype(str))
        features = pd.get_dummies(rows.drop(columns=[target]), dtype=float).sort_index(axis=1)
        tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=least, random_state=0)
        tree.fit(features.to_numpy(), rows[target].astype(str).to_numpy())
        names, grown, labels = list(features.columns), tree.tree_, tree.classes_

        def rules(at: int, path: tuple[tuple[str, str, float], ...]) -> list[tuple[Any, str]]:
            if grown.children_left[at] < 0:
                return [(path, str(labels[grown.value[at][0].argmax()]))]
            name, cut = names[grown.feature[at]], round(float(grown.threshold[at]), digits)
            left = rules(grown.children_left[at], (*path, (name, "<=", cut)))
            right = rules(grown.children_right[at], (*path, (name, ">", cut)))
            if len(left) == len(right) == 1 and left[0][1] == right[0][1]:
                return [(path, left[0][1])]
            return left + right

        return frozenset((tuple(sorted(path)), label) for path, label in rules(0, ()))

    return fit
