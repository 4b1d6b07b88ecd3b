import pytest

from epagcl.study.source_digest import source_digest


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 1  # one", "x = 1"),
        ('def f():\n    """Return 1."""\n    return 1', "def f():\n    return 1"),
        ("def f(x: int = 1) -> float:\n    return x", "def f(x=1):\n    return x"),
        ("def f():\n    y: list[int] = []\n    z: int\n    return y", "def f():\n    y = []\n    return y"),
        ("raise ValueError(f'{x}: bad') from None", "raise ValueError('worse')"),
        ("assert x, 'message'", "assert x"),
        ("log.info('begin')\nx = 1", "x = 1"),
        ("warnings.warn('old')\nwork.say('now')\nx = 1", "x = 1"),
        ("from typing import Any\nx = 1", "x = 1"),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", "import b"),
        ("class A:\n    title = 'A'\n    x = 1", "class A:\n    title = 'B'\n    x = 1"),
        ("class A:\n    x: int = setting(1, 'old', ('a',))", "class A:\n    x: int = setting(1, 'new', ('a',))"),
    ],
)
def test_descriptions_do_not_count(first, second):
    assert source_digest(first) == source_digest(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 1", "x = 2"),
        ("x = None", "x = ''"),
        ("raise ValueError", "raise TypeError"),
        ("log = log.add_(x)", "log = log.add_(y)"),
        ("log.add_(x)", "log.add_(y)"),
        ("import a", "import b"),
        ("@f\ndef g(): pass", "def g(): pass"),
        ("def f(n: tl.constexpr): pass", "def f(n): pass"),
        ("class A:\n    x: int = setting(1, '')", "class A:\n    x: float = setting(1, '')"),
        ("class A:\n    x: int = setting(1, '', ('a',))", "class A:\n    x: int = setting(1, '', ('b',))"),
        ("title = 'A'", "title = 'B'"),
        ("f([])", "f()"),
    ],
)
def test_computations_count(first, second):
    assert source_digest(first) != source_digest(second)


def test_imports_of_ignored_modules_do_not_count():
    ignored = frozenset({"a.messages"})
    assert source_digest("from a.messages import say\nx = 1", ignored) == source_digest("x = 1", ignored)
    assert source_digest("from a.numbers import y\nx = 1", ignored) != source_digest("x = 1", ignored)
