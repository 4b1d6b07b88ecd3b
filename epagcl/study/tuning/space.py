"""What is searched: for each setting a range or a list of values."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any

from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from epagcl.methods.base import Method

#: The default space: of every method that has the setting, then what single methods have beside it. A stem such as
#: ``p_drop`` stands for ``p_drop_1`` and ``p_drop_2``. Widths are searched when asked for.
EVERY_METHOD = {
    "p_drop": "0:0.8",
    "p_mask": "0:0.8",
    "p_add": "0:0.3",
    "temperature": "0.1:1:log",
    "dropout": "0:0.8",
    "attention_dropout": "0:0.8",
    "lr": "1e-4:1e-2:log",
    "weight_decay": "0,1e-6,1e-5,1e-4,5e-4,1e-3",  # 0 is the default of several, and no logarithm has it
}
ONE_METHOD = {
    "bgrl": {"momentum": "0.9:0.999"},
    "cca-ssg": {"decorrelation": "1e-4:1e-2:log"},
    "gat": {"lr": "1e-3:5e-2:log"},
    "gcn": {"lr": "1e-3:5e-2:log"},
    "gmi": {"alpha": "0:1", "beta": "0:1", "gamma": "0:1"},
    "greet": {"alpha": "0.1:0.9", "k": "0,10,20,30", "gate_lr": "1e-4:1e-2:log"},
    "mvgrl": {"alpha": "0.05:0.5"},
}
PROBABILITY = "0:0.8"  # of a user's own method: every setting p_...

UNSEARCHED = ("seed", "device", "capture", "precision", "patience")  # they say how to train, not what is learned
DRAWS = 64  # of the other settings, before a value is said to be impossible


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; ``log``: small ones as often as large ones."""

    low: float
    high: float
    log: bool = False

    def __str__(self) -> str:
        return f"{_text(self.low)}:{_text(self.high)}" + (":log" if self.log else "")

    @property
    def ends(self) -> tuple[float, float]:
        """What must be possible for the range to be."""
        return self.low, self.high

    def nearest(self, value: float) -> float:
        """The value in the range that is closest."""
        return type(self.low)(min(max(value, self.low), self.high))

    def rounded(self, value: Any) -> Any:
        """The value as people write it: four digits, still in the range."""
        return value if isinstance(self.low, int) else self.nearest(float(f"{value:.4g}"))

    def distribution(self) -> "BaseDistribution":
        """As Optuna has it."""
        from optuna.distributions import FloatDistribution, IntDistribution

        kind = IntDistribution if isinstance(self.low, int) else FloatDistribution
        return kind(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    ends: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(map(_text, self.ends))

    def nearest(self, value: Any) -> Any:
        """The value if it is one of them, else None."""
        return value if value in self.ends else None

    def rounded(self, value: Any) -> Any:
        """The value as it is."""
        return value

    def distribution(self) -> "BaseDistribution":
        """As Optuna has it."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.ends)


Space = dict[str, Range | Choice]


def default_space(method: "type[Method]") -> Space:
    """The settings of a method that are searched unless told otherwise: probabilities, rates, temperature, weights."""
    fields = {field.name: field for field in method.setting_fields()}
    own = {name: PROBABILITY for name, field in fields.items() if name.startswith("p_") and field.type is float}
    words: dict[str, str] = own
    for table in (EVERY_METHOD, ONE_METHOD.get(method.name, {})):
        words |= {name: text for stem, text in table.items() for name in _names(stem, fields)}
    return {name: _parsed(field, words[name]) for name, field in fields.items() if name in words}


def space_of(
    method: "type[Method]",
    given: Mapping[str, Any] | Sequence[str] | None,
    start: "Method",
    fixed: Collection[str] = (),
) -> Space:
    """The space to search, checked.

    Args:
        method: whose settings.
        given: name → ``"0.1:0.6"``, ``"1e-4:1e-2:log"``, ``"128,256"``, (low, high), (low, high, "log"), or a list of
            values; or the words of the command line, ``"lr=1e-4:1e-2:log"``, of which ``default`` is the default
            space. None: the default space.
        start: settings that are not searched are these.
        fixed: settings that leave the default space, since the user gave them a value.
    """
    if given is None:
        given = ["default"]
    if isinstance(given, str):
        given = given.split()
    words = list(given.items()) if isinstance(given, Mapping) else [_pair(word) for word in given]
    fields = {field.name: field for field in method.setting_fields()}
    space: Space = {}
    if ("default", None) in words:
        space = {name: values for name, values in default_space(method).items() if name not in fixed}
    for stem, value in words:
        if (stem, value) == ("default", None):
            continue
        if not (names := _names(stem, fields)):
            raise InputError(f"space: {method.name} has no setting {stem!r}; `epagcl methods {method.name}` lists them")
        for name in names:
            if name in UNSEARCHED:
                raise InputError(f"space: {name} is not searched; give it one value")
            if name in fixed:
                raise InputError(f"space: {name} has a fixed value too; leave out one of the two")
            space[name] = _parsed(fields[name], value)
    if not space:
        raise InputError("space: nothing to search, all its settings have fixed values; leave some out")
    _check_ends(space, start)
    return space


def space_words(space: Space) -> dict[str, str]:
    """The space as it is written."""
    return {name: str(values) for name, values in space.items()}


def _names(stem: str, fields: Mapping[str, Field]) -> list[str]:
    """The setting of this name, or those of the two views."""
    stem = stem.replace("-", "_")
    return [stem] if stem in fields else [name for name in (f"{stem}_1", f"{stem}_2") if name in fields]


def _pair(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    if word != "default" and not (equals and name and value):
        raise InputError(f"space {word}: write name=low:high, name=low:high:log or name=a,b,c")
    return name, value or None


def _parsed(field: Field, value: Any) -> Range | Choice:
    """A range or choice of a setting, its numbers of the setting's type."""
    if isinstance(value, Range | Choice):
        value = str(value)
    if isinstance(value, str):
        parts: list[Any] = value.split(":") if ":" in value else value.split(",")
        is_range = ":" in value
    else:
        parts, is_range = list(value) if isinstance(value, Iterable) else [value], isinstance(value, tuple)
    said = f"space: {field.name}={value}"
    if not is_range:
        choices = tuple(dict.fromkeys(_value(field, part, said) for part in parts))
        if len(choices) < 2:
            raise InputError(f"{said}: one value is no choice; give it as a setting, or more of them")
        return Choice(choices)
    if field.type not in (int, float) or len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        fix = "low:high or low:high:log" if field.type in (int, float) else "a list, a,b"
        raise InputError(f"{said}: of {field.type.__name__}, write {fix}")
    low, high = (_value(field, part, said) for part in parts[:2])
    if not low < high:
        raise InputError(f"{said}: the first end must be the lower")
    if parts[2:] and low <= 0:
        raise InputError(f"{said}: a logarithmic range begins above 0")
    return Range(low, high, bool(parts[2:]))


def _value(field: Field, part: Any, said: str) -> Any:
    try:
        if field.type is bool:
            return {"true": True, "false": False}[str(part).strip().lower()]
        value = field.type(part.strip() if isinstance(part, str) else part)
        if value != value or (field.type is int and not isinstance(part, str) and value != part):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{said}: {part!r} is no {field.type.__name__}") from None
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        raise InputError(f"{said}: choose of {', '.join(choices)}")
    return value


def _check_ends(space: Space, start: "Method") -> None:
    """Raise if an end of a range, or a value of a choice, is refused whatever the other settings are."""
    draw = random.Random(0)
    base = start.get_params()
    draws = [{}] + [{name: draw.choice(values.ends) for name, values in space.items()} for _ in range(DRAWS)]
    for name, values in space.items():
        for end in values.ends:
            refused = [_refusal(type(start), {**base, **others, name: end}) for others in draws]
            if all(refused):
                raise InputError(f"space: {name}={values}: {refused[0]}")


def _refusal(method: "type[Method]", settings: dict[str, Any]) -> str | None:
    try:
        method(**settings)
    except InputError as error:
        return str(error)
    return None


def _text(value: Any) -> str:
    return (
        str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else str(value)
    )
