"""The public interface: every name with its parameters and defaults, and the five lines of the contract.

``public_api.json`` holds the frozen interface. ``python -m tests.test_public_api`` writes it again after a deliberate
change, which also needs an entry in the changelog and, for a renamed or removed name, a deprecation.
"""

import importlib
import inspect
import json
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin, is_typeddict

import pytest

import epagcl

FROZEN = Path(__file__).parent / "public_api.json"
#: The packages and modules that are frozen, by the name under which they are imported.
PACKAGES = (
    "data",
    "epr",
    "errors",
    "evaluation",
    "health",
    "loggers",
    "distributed",
    "losses",
    "methods",
    "nn",
    "report.files",
    "report.maps",
    "report.metrics",
    "runs",
    "study",
    "tasks",
    "training",
    "transforms",
    "tuning",
    "views",
)


def public_names(module: ModuleType) -> list[str]:
    """Return the names in ``__all__``, or else the public functions and classes that the module defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def signature(function: Any) -> str:
    """Return the parameters of a function with kinds and defaults, without annotations."""
    parameters = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=... if inspect.isfunction(parameter.default) else parameter.default,  # its repr has an address
        )
        for parameter in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def is_property(member: Any) -> bool:
    return isinstance(member, property | cached_property)


def _defined_in_the_package(cls: type, name: str) -> bool:
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return owner.__module__.split(".")[0] == "epagcl"


def describe(value: Any) -> Any:
    """Return the settings of an estimator, the parameters of a callable, or the value of a constant."""
    if isinstance(value, ModuleType):
        return "module"
    if is_typeddict(value):
        return {"keys": sorted(value.__annotations__)}
    if get_origin(value) is not None:  # a type such as Callable[[Row], None]
        return "type"
    if inspect.isclass(value):
        properties = sorted(
            name
            for name, member in inspect.getmembers_static(value, is_property)
            if not name.startswith("_") and _defined_in_the_package(value, name)
        )
        if issubclass(value, epagcl.methods.Method) and "name" in vars(value):
            return {
                "settings": {field.name: field.default for field in value.setting_fields()},
                "properties": properties,
            }
        methods = {
            name: signature(getattr(value, name))
            for name, member in sorted(vars(value).items())
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod))
        }
        builtin = issubclass(value, Exception) and not inspect.isfunction(value.__init__)  # without a signature
        return {"parameters": "(*args)" if builtin else signature(value), "methods": methods, "properties": properties}
    if isinstance(value, dict):
        return sorted(value)
    return signature(value) if callable(value) else repr(value)


def imported(name: str) -> ModuleType:
    """Return a module that is an attribute of the package, or else one of its submodules."""
    module = getattr(epagcl, name) if name in epagcl.__all__ else importlib.import_module(f"epagcl.{name}")
    assert isinstance(module, ModuleType)
    return module


def public_api() -> dict[str, dict[str, Any]]:
    """Return the description of every public name, by package."""
    modules = {"epagcl": epagcl, **{f"epagcl.{name}": imported(name) for name in PACKAGES}}
    return {
        path: {name: describe(getattr(module, name)) for name in public_names(module)}
        for path, module in modules.items()
    }


def test_the_interface_is_the_frozen_one():
    frozen, current = json.loads(FROZEN.read_text(encoding="utf-8")), public_api()
    assert sorted(current) == sorted(frozen)
    for path, names in frozen.items():
        assert sorted(current[path]) == sorted(names), f"{path}: names were added or removed"
        for name, description in names.items():
            assert current[path][name] == description, f"{path}.{name} has changed"


def test_every_public_name_can_be_imported():
    for name in epagcl.__all__:
        assert getattr(epagcl, name) is not None
    assert set(epagcl.__all__) <= set(dir(epagcl))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        epagcl.nothing  # noqa: B018


@pytest.mark.slow
def test_subpackages_are_attributes_without_an_import_of_their_own():
    paths = {
        "epr": "epagcl.epr",
        "errors": "epagcl.core.errors",
        "evaluation": "epagcl.evaluation",
        "health": "epagcl.evaluation.health",
        "loggers": "epagcl.integrations.loggers",
        "losses": "epagcl.losses",
        "report": "epagcl.report",
        "runs": "epagcl.runs",
        "tasks": "epagcl.tasks",
        "transforms": "epagcl.views.transforms",
        "tuning": "epagcl.study.tuning",
        "views": "epagcl.views",
    }
    code = f"import epagcl; print(*(getattr(epagcl, name).__name__ for name in {list(paths)}))"
    process = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:epagcl", "-c", code], capture_output=True
    )
    assert process.stdout.decode().split() == list(paths.values())


def test_methods_is_a_function_and_a_package():
    assert epagcl.methods() == epagcl.methods.names()
    import epagcl.methods.epagcl as module

    assert module.EPAGCL is epagcl.EPAGCL
    assert epagcl.methods() == epagcl.methods.names()


def test_every_method_is_a_public_class():
    for name in epagcl.methods():
        cls = epagcl.method(name)
        if cls.__module__.startswith("epagcl.methods."):
            assert getattr(epagcl, cls.__name__) is cls


def test_importing_the_package_or_asking_for_help_does_not_import_torch():
    code = "import sys, epagcl, epagcl.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_contract_in_five_lines(tmp_path):
    data = epagcl.load("demo")
    model = epagcl.EPAGCL(epochs=1, seed=0, hidden=16, dim=8, projection=8).fit(data)
    z = model.embed(data)
    assert z.shape == (data.num_nodes, 8)
    assert z.isfinite().all()
    model.save(tmp_path / "run")
    assert epagcl.load_model(tmp_path / "run").embed(data).equal(z)
    p = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=0.3, p_add=0.1)
    assert p.pairs.shape == (2, data.edge_index.shape[1] // 2)
    assert p.pairs.shape[1] == p.drop.shape[0]
    assert p.candidates.shape[1] == p.add.shape[0]
    assert p.drop.double().mean().item() == pytest.approx(0.3, abs=0.01)  # lower by the cut-off at 1
    assert (p.pairs[0] < p.pairs[1]).all()
    assert (p.candidates[0] < p.candidates[1]).all()
    rate = epagcl.error_passing_rate(data.edge_index, data.y, per="node", self_loops=False, hops=1)
    change = epagcl.epr_change(data.edge_index, data.y, p.pairs[:, :3], self_loops=False)
    assert 0 < rate < 1
    assert change.shape == (3,)
    assert epagcl.info_nce(z, z, temperature=0.3) > 0
    result = epagcl.linear_evaluation(z, data.y, protocol="strict", runs=2, seed=0)
    assert len(result.runs) == 2
    assert 0 < result.mean < 1
    assert result.std == pytest.approx(abs(result.runs[0] - result.runs[1]) / 2**0.5)


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(public_api(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
