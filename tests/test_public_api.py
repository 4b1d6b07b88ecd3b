import subprocess
import sys

import pytest

import epagcl


def test_every_public_name_is_there():
    for name in epagcl.__all__:
        assert getattr(epagcl, name) is not None
    assert set(epagcl.__all__) <= set(dir(epagcl))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        epagcl.nothing  # noqa: B018


def test_rooms_that_the_reference_names_are_there_without_an_import_of_their_own():
    rooms = ["epr", "errors", "evaluation", "health", "losses", "report", "runs", "tuning", "views"]
    code = f"import epagcl; print(*(getattr(epagcl, room).__name__ for room in {rooms}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [f"epagcl.{room}" for room in rooms]


def test_methods_is_a_function_and_a_package():
    assert epagcl.methods() == epagcl.methods.names()
    import epagcl.methods.epagcl as module

    assert module.EPAGCL is epagcl.EPAGCL
    assert epagcl.methods() == epagcl.methods.names()


def test_every_method_is_a_public_class():
    for name in epagcl.methods():
        cls = epagcl.method(name)
        if cls.__module__.startswith("epagcl."):
            assert getattr(epagcl, cls.__name__) is cls


def test_a_method_that_is_defined_again_is_the_new_one():
    from epagcl.methods import method_settings

    def define(words):
        @method_settings
        class Again(epagcl.DGI):
            name = "again"
            title = words

        return Again

    first, second = define("first"), define("second")
    assert epagcl.method("again") is second is not first


def test_importing_the_package_or_asking_for_help_does_not_import_torch():
    code = "import sys, epagcl, epagcl.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_contract_in_five_lines(tmp_path):
    data = epagcl.load("demo")
    model = epagcl.EPAGCL(epochs=1, seed=0, hidden=16, dim=8, projection=8).fit(data)
    z = model.embed(data)
    model.save(tmp_path / "run")
    assert epagcl.load_model(tmp_path / "run").embed(data).equal(z)
    p = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=0.3, p_add=0.1)
    assert p.pairs.shape[1] == p.drop.shape[0]
    assert p.candidates.shape[1] == p.add.shape[0]
    rate = epagcl.error_passing_rate(data.edge_index, data.y, per="node", self_loops=False, hops=1)
    change = epagcl.epr_change(data.edge_index, data.y, p.pairs[:, :3], self_loops=False)
    assert 0 < rate < 1
    assert change.shape == (3,)
    assert epagcl.info_nce(z, z, temperature=0.3) > 0
    result = epagcl.linear_evaluation(z, data.y, protocol="strict", runs=2, seed=0)
    assert len(result.runs) == 2
    assert 0 < result.mean < 1
    assert result.std >= 0
