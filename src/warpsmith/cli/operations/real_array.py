"""Files of known weights, as `--weights FILE.npy` names them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.errors import BadArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray


def real_array(path: Path) -> NDArray[Any]:
    """Array of an .npy file. Raises BadArgument if it cannot be read, or holds no real numbers."""
    array = _array(path)
    if array.dtype.kind not in "fiub":
        raise BadArgument(f"{path} must hold real numbers; it holds {array.dtype}")
    return array


def _array(path: Path) -> NDArray[Any]:
    from numpy.lib.format import MAGIC_PREFIX, read_array

    try:
        with path.open("rb") as file:
            # numpy.load would treat another kind of file as a pickle, and report that.
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise BadArgument(f"{path} is not a .npy file; write the weights with numpy.save")
            file.seek(0)
            array: NDArray[Any] = read_array(file, allow_pickle=False)
            return array
    except OSError as error:
        raise BadArgument(f"cannot read the weights {path}: {error.strerror}") from None
    except BadArgument:
        raise
    except Exception as error:  # a damaged header causes arbitrary errors in NumPy's parser
        raise BadArgument(f"cannot read the weights {path}: {error}; write them with numpy.save") from None
