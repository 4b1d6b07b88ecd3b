import errno
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from epagcl.core.arrays import write_array, write_values


@pytest.mark.parametrize(
    "array",
    [np.arange(12).reshape(3, 4), np.asfortranarray(np.eye(3, 2)), np.zeros((0, 4), np.float32), np.array(["a", "bc"])],
    ids=["integers", "fortran", "empty", "text"],
)
def test_files_are_those_of_numpy(tmp_path, array):
    with (tmp_path / "ours.npy").open("wb") as file:
        write_array(file, array)
    np.save(tmp_path / "numpy.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    with (tmp_path / "values").open("wb") as file:
        write_values(file, array[::-1])
    assert (tmp_path / "values").read_bytes() == array[::-1].tobytes()


def test_pickles_are_refused(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file, pytest.raises(ValueError, match="allow_pickle"):
        write_array(file, np.array([{}]))


@pytest.mark.parametrize("call", ["write_array(file, array)", "write_values(file, array)"])
def test_a_full_disk_is_an_error(tmp_path, call):
    # np.save does not raise here: the values are in a buffer of the C library, whose end is not checked.
    script = f"""
        import resource, signal, sys
        import numpy as np
        from epagcl.core.arrays import write_array, write_values
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
        array = np.arange(20.0)
        try:
            with open(sys.argv[1], "wb") as file:
                if {call.startswith("write_values")}:
                    file.write(bytes(128))
                {call}
        except OSError as error:
            sys.exit(error.errno)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "a.npy")]
    assert subprocess.run(command, check=False).returncode == errno.EFBIG
