"""The search space: a range or a list of values for each searched setting."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any

from epagcl.core.config import RENAMED_SETTINGS, current_value
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from epagcl.methods.base import Method

#: The default space of every method that has the setting, then additions for single methods. A stem such as ``p_drop``
#: stands for ``p_drop_1`` and ``p_drop_2``. The width of an embedding is searched only on request.
EVERY_METHOD = {
    "p_drop": "0:0.8",
    "p_mask": "0:0.8",
    "p_add": "0:0.3",
    "temperature": "0.1:1:log",
    "dropout": "0:0.8",
    "attention_dropout": "0:0.8",
    "lr": "1e-4:1e-2:log",
    "weight_decay": "0,1e-6,1e-5,1e-4,5e-4,1e-3",  # a logarithmic range cannot hold the default 0
}
ONE_METHOD = {
    "bgrl": {"momentum": "0.9:0.999"},
    "cca-ssg": {"decorrelation": "1e-4:1e-2:log"},
    "epagcl+": {
        "members": "1:4",
        "k": "5:30:log",
        "batch_size": "128,256,512,1024",
        "hidden": "128,256,512",
        "projection": "64,128,256",
    },
    "gat": {"lr": "1e-3:5e-2:log"},
    "gcn": {"lr": "1e-3:5e-2:log"},
    "gmi": {"alpha": "0:1", "beta": "0:1", "gamma": "0:1"},
    "greet": {"alpha": "0.1:0.9", "k": "0,10,20,30", "gate_lr": "1e-4:1e-2:log"},
    "mvgrl": {"alpha": "0.05:0.5"},
    "propagated": {"alpha": "0.03:0.5:log"},
}
PROBABILITY = "0:0.8"  # range of every setting p_... of a user's own method

UNSEARCHED = (
    "seed",
    "device",
    "capture",
    "precision",
    "patience",
)  # they control how training runs, not what is learned
DRAWS = 64  # draws of the other settings before a value is refused as impossible


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included, uniform on a linear or a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    def __str__(self) -> str:
        return f"{_text(self.low)}:{_text(self.high)}" + (":log" if self.log else "")

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, which the method must accept."""
        return self.low, self.high

    def nearest(self, value: float) -> float:
        """Return the value of the range that is closest to ``value``."""
        return type(self.low)(min(max(value, self.low), self.high))

    def including(self, value: float) -> "Range":
        """Return the smallest range that also contains a value. A logarithmic range takes positive values only.

        Examples:
            >>> str(Range(0.0001, 0.01, log=True).including(0.1))
            '0.0001:0.1:log'
        """
        return self if self.log and value <= 0 else Range(min(self.low, value), max(self.high, value), self.log)

    def rounded(self, value: Any) -> Any:
        """Return a float rounded to four significant digits, but within the range; an integer unchanged."""
        return value if isinstance(self.low, int) else self.nearest(float(f"{value:.4g}"))

    def distribution(self) -> "BaseDistribution":
        """Return the values as a distribution of Optuna."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if isinstance(self.low, int) and isinstance(self.high, int):
            return IntDistribution(self.low, self.high, log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    ends: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(map(_text, self.ends))

    def nearest(self, value: Any) -> Any:
        """Return the value if it is one of the choices, else None."""
        return value if value in self.ends else None

    def including(self, value: Any) -> "Choice":
        """Return a choice that also has a value.

        Examples:
            >>> str(Choice((0, 10, 20)).including(25))
            '0,10,20,25'
        """
        return self if value in self.ends else Choice((*self.ends, value))

    def rounded(self, value: Any) -> Any:
        """Return the value unchanged."""
        return value

    def distribution(self) -> "BaseDistribution":
        """Return the values as a distribution of Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.ends)


Space = dict[str, Range | Choice]


def default_space(method: "type[Method]") -> Space:
    """Return the default space of a method: probabilities, learning rates, temperature and weights."""
    fields = {field.name: field for field in method.setting_fields()}
    words = {name: PROBABILITY for name, field in fields.items() if name.startswith("p_") and field.type is float}
    for table in (EVERY_METHOD, ONE_METHOD.get(method.name, {})):
        words |= {name: text for stem, text in table.items() for name in _names(stem, fields)}
    return {name: _parsed(field, words[name]) for name, field in fields.items() if name in words}


def space_of(
    method: "type[Method]",
    space: Mapping[str, Any] | Sequence[str] | None,
    start: "Method",
    fixed: Collection[str] = (),
) -> Space:
    """Return the space to search. Raise if the method cannot take its values.

    Args:
        method: the method.
        space: name → ``"0.1:0.6"``, ``"1e-4:1e-2:log"``, ``"128,256"``, (low, high), (low, high, "log"), or a list of
            values; or a list of words such as ``"lr=1e-4:1e-2:log"``, where ``"default"`` adds the default space.
            None: the default space.
        start: model with the settings that are not searched. The default space is widened to contain its settings.
        fixed: names of settings with a value of the user, which are removed from the default space.
    """
    if space is None:
        space = ["default"]
    if isinstance(space, str):
        space = space.split()
    pairs = list(space.items()) if isinstance(space, Mapping) else [_pair(word) for word in space]
    fields = {field.name: field for field in method.setting_fields()}
    searched: Space = {}
    if ("default", None) in pairs:
        own = start.get_params()
        searched = {
            name: values.including(own[name]) for name, values in default_space(method).items() if name not in fixed
        }
    for stem, value in pairs:
        if (stem, value) == ("default", None):
            continue
        if not (names := _names(stem, fields)):
            raise InputError(f"space: {method.name} has no setting {stem!r}; `epagcl methods {method.name}` lists them")
        for name in names:
            if name in UNSEARCHED:
                raise InputError(f"space: {name} cannot be searched; give it one value")
            if name in fixed:
                raise InputError(f"space: {name} has a fixed value too; leave out one of them")
            searched[name] = _parsed(fields[name], value)
    if not searched:
        raise InputError("space: nothing to search; all settings have fixed values, leave some of them out")
    _check_ends(searched, start)
    return searched


def space_words(space: Space) -> dict[str, str]:
    """Return the space in words, as a user writes it."""
    return {name: str(values) for name, values in space.items()}


def _names(stem: str, fields: Mapping[str, "Field[Any]"]) -> list[str]:
    """Return the setting of this name, or the settings of the two views; empty if there are none."""
    stem = stem.replace("-", "_")
    stem = RENAMED_SETTINGS.get(stem, stem)
    return [stem] if stem in fields else [name for name in (f"{stem}_1", f"{stem}_2") if name in fields]


def _pair(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    if word != "default" and not (equals and name and value):
        raise InputError(f"space {word}: write name=low:high, name=low:high:log or name=a,b,c")
    return name, value or None


def _parsed(field: "Field[Any]", value: Any) -> Range | Choice:
    """Return the range or choice that a value describes, with numbers of the setting's type."""
    if isinstance(value, Range | Choice):
        value = str(value)
    parts: list[Any]
    if isinstance(value, str):
        is_range = ":" in value
        parts = value.split(":" if is_range else ",")
    else:
        is_range = isinstance(value, tuple)
        parts = list(value) if isinstance(value, Iterable) else [value]
    where = f"space: {field.name}={value}"
    if not is_range:
        choices = tuple(dict.fromkeys(_value(field, part, where) for part in parts))
        if len(choices) < 2:
            raise InputError(f"{where}: a choice needs two values or more; give a single one as a fixed setting")
        return Choice(choices)
    if field.type not in (int, float) or len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        fix = "low:high or low:high:log" if field.type in (int, float) else "a list, a,b"
        raise InputError(f"{where}: for type {_type_name(field)}, write {fix}")
    low, high = (_value(field, part, where) for part in parts[:2])
    if not low < high:
        raise InputError(f"{where}: the first end must be the lower")
    if parts[2:] and low <= 0:
        raise InputError(f"{where}: a logarithmic range begins above 0")
    return Range(low, high, bool(parts[2:]))


def _value(field: "Field[Any]", part: Any, where: str) -> Any:
    """Return one value of a setting as the setting's type; ``where`` begins the error message."""
    kind: Any = field.type
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(part).strip().lower()]
        value = current_value(field.name, kind(part.strip() if isinstance(part, str) else part))
        if value != value or (kind is int and not isinstance(part, str) and value != part):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{where}: {part!r} is not of type {_type_name(field)}") from None
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        raise InputError(f"{where}: choose from {', '.join(choices)}")
    return value


def _type_name(field: "Field[Any]") -> str:
    return str(getattr(field.type, "__name__", field.type))


def _check_ends(space: Space, start: "Method") -> None:
    """Raise if the method refuses an end of a range, or a value of a choice, whatever the other settings are."""
    draw = random.Random(0)
    base = start.get_params()
    draws: list[dict[str, Any]] = [{}]
    draws += [{name: draw.choice(values.ends) for name, values in space.items()} for _ in range(DRAWS)]
    for name, values in space.items():
        for end in values.ends:
            refused = [_refusal(type(start), {**base, **others, name: end}) for others in draws]
            if all(refused):
                raise InputError(f"space: {name}={values}: {refused[0]}")


def _refusal(method: "type[Method]", settings: dict[str, Any]) -> str | None:
    """Return why a method refuses some settings, or None if it accepts them."""
    try:
        method(**settings)
    except InputError as error:
        return str(error)
    return None


def _text(value: Any) -> str:
    return (
        str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else str(value)
    )
