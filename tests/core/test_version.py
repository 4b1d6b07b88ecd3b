import re

import epagcl
from epagcl.core.version import __version__


def test_the_version_of_the_package_has_three_numbers():
    assert epagcl.__version__ == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
