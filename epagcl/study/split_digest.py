"""A digest of the splits published with a graph, for the keys of results that depend on them."""

import hashlib

from torch_geometric.data import Data

from epagcl.data.splits import PARTS

#: The attributes that hold published splits: the public ones and those of Geom-GCN.
MASKS = tuple(f"{prefix}{part}_mask" for prefix in ("", "geom_") for part in PARTS)


def split_digest(data: Data) -> str | None:
    """Return sixteen hexadecimal digits of the masks ``train_mask``, ..., ``geom_test_mask``, or None without masks.

    Examples:
        >>> import torch
        >>> mask = torch.tensor([True, False, False])
        >>> split_digest(Data(train_mask=mask)) == split_digest(Data(train_mask=mask.roll(1)))
        False
        >>> split_digest(Data(num_nodes=3)) is None
        True
    """
    masks = {name: data[name] for name in MASKS if data.get(name) is not None}
    if not masks:
        return None
    digest = hashlib.sha256()
    for name, mask in masks.items():
        digest.update(f"{name}{tuple(mask.shape)}".encode())
        digest.update((mask != 0).cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
