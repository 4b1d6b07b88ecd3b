"""The settings that the study of sensitivity varies one at a time, and the rows of their sweeps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epagcl.methods import method
from epagcl.study.design import Row

#: The methods that are varied.
METHODS = ("epagcl", "epagcl+")
#: Seeds of each value of a sweep.
SEEDS = 5
#: What the title of a row says in place of a changed setting.
DEFAULT = "default"
#: Largest probability of a sweep, so that no view loses everything.
MOST = 0.9


@dataclass(frozen=True)
class Setting:
    """A setting that is varied while all others keep their defaults.

    Attributes:
        label: what tables and figures call it.
        names: names of the settings of a method, with the number of views that each applies to. Names that a method
            does not have are left out. The value of several names is their mean over views, and they are scaled
            together, so that the ratio of the views stays that of the default.
        grid: the values. The default takes the place of the nearest one.
        relative: whether the grid is in units of the default.
        scale: scale of the axis: linear or log.
    """

    label: str
    names: Mapping[str, int]
    grid: tuple[float, ...]
    relative: bool = False
    scale: str = "linear"

    def value(self, settings: Mapping[str, Any]) -> float | None:
        """Return the value in some settings of a method, as a mean over views; None if the method does not have it."""
        views = {name: count for name, count in self.names.items() if name in settings}
        if not views:
            return None
        return round(sum(count * settings[name] for name, count in views.items()) / sum(views.values()), 6)

    def values(self, default: float) -> list[float]:
        """Return the values of the sweep from low to high, the default among them.

        Examples:
            >>> TEMPERATURE.values(0.3)
            [0.1, 0.2, 0.3, 0.5, 1.0]
            >>> P_DROP.values(0.35)
            [0.0, 0.1, 0.35, 0.5, 0.7]
            >>> EPOCHS.values(300)
            [30, 75, 150, 300, 600]
        """
        if self.relative:
            return sorted({max(1, round(factor * default)) for factor in self.grid} | {default})
        nearest = min(self.grid, key=lambda value: self._distance(value, default))
        return sorted({default if value == nearest else value for value in self.grid})

    def changed(self, settings: Mapping[str, Any], value: float) -> dict[str, Any]:
        """Return the changed settings of a method for a value of the sweep."""
        names, default = [name for name in self.names if name in settings], self.value(settings)
        if len(names) == 1:
            return {names[0]: value}
        scaled = {name: settings[name] * value / default if default else value for name in names}
        return {name: round(min(MOST, one), 6) for name, one in scaled.items()}

    def _distance(self, value: float, default: float) -> float:
        positive = self.scale == "log" and value > 0 and default > 0
        return abs(math.log(value / default)) if positive else abs(value - default)


TEMPERATURE = Setting("τ", {"temperature": 1}, (0.1, 0.2, 0.3, 0.5, 1.0), scale="log")
P_DROP = Setting("p_drop", {"p_drop_1": 1, "p_drop_2": 1}, (0.0, 0.1, 0.3, 0.5, 0.7))
P_ADD = Setting("p_add", {"p_add": 1}, (0.0, 0.05, 0.1, 0.2, 0.4))
#: EPAGCL+ masks both views of its scales models with ``p_mask``.
MASKS = Setting("masks", {"p_mask_1": 1, "p_mask_2": 1, "p_mask": 2}, (0.0, 0.1, 0.3, 0.5, 0.7))
EPOCHS = Setting("epochs", {"epochs": 1}, (0.1, 0.25, 0.5, 1, 2), relative=True, scale="log")
WIDTH = Setting("width", {"dim": 1}, (0.125, 0.25, 0.5, 1, 2), relative=True, scale="log")
#: The varied settings by label.
SETTINGS = {one.label: one for one in (TEMPERATURE, P_DROP, P_ADD, MASKS, EPOCHS, WIDTH)}


def sweep_rows(graph: str, methods: Sequence[str], settings: dict[str, Any]) -> list[Row]:
    """Return the rows of a graph: the methods at their defaults, then with one setting changed, setting by setting.

    Args:
        graph: name of the graph, whose recipes are the defaults.
        methods: names of methods.
        settings: take precedence over the recipes'.

    Examples:
        >>> [row.title for row in sweep_rows("Cora", ["epagcl"], {})][:5]
        ['EPAGCL, default', 'EPAGCL, τ = 0.1', 'EPAGCL, τ = 0.2', 'EPAGCL, τ = 0.5', 'EPAGCL, τ = 1']
    """
    own = {name: Row("", name).models(graph, 1, settings)[0][0].settings() for name in methods}
    rows = [Row(f"{method(name).title}, {DEFAULT}", name) for name in methods]
    for setting in SETTINGS.values():
        for name in methods:
            default = setting.value(own[name])
            if default is not None:
                rows += [
                    Row(f"{method(name).title}, {setting.label} = {value:g}", name, setting.changed(own[name], value))
                    for value in setting.values(default)
                    if value != default
                ]
    return rows


def read_title(title: str) -> tuple[str, str, float | None]:
    """Return the method, the label and the value in the title of a row; no value for the row of a default.

    Examples:
        >>> read_title("EPAGCL+, τ = 0.1"), read_title("EPAGCL+, default")
        (('EPAGCL+', 'τ', 0.1), ('EPAGCL+', 'default', None))
    """
    method_title, _, rest = title.partition(", ")
    label, _, value = rest.partition(" = ")
    return method_title, label, float(value) if value else None
