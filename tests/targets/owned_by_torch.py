"""Tensors of torch, each with what torch itself says of their storages' bytes.

Argument: the native core. Prints {name: (bytes elsewhere by the core, whether it may own more, bytes by torch)}.
"""

import sys

from core_breaks import load, lookalike

del sys.path[0]

import numpy as np  # noqa: E402
import torch  # noqa: E402

BASE = torch.ones(1000, 300)
LAYER = torch.nn.Linear(200, 100)
LAYER(torch.ones(5, 200)).sum().backward()
NUMBERS = np.ones(1000)

KNOWN = {
    "tensor": BASE,
    "view": BASE[10:20, ::3].T,
    "alias": BASE.detach(),
    "storage": BASE.untyped_storage(),
    "one byte": torch.ones(1, dtype=torch.uint8),
    "scalar": torch.tensor(1.5),
    "empty": torch.ones(0),
    "halves": torch.ones(333, dtype=torch.bfloat16),
    "buffer": torch.nn.BatchNorm1d(500).running_mean,
    "without gradient": torch.nn.Parameter(torch.ones(700)),
    "on no device": torch.ones(1000, device="meta"),
    "grown": torch.ones(10).resize_(5000),
    "released": torch.ones(5000),
}
KNOWN["released"].untyped_storage().resize_(0)


class Mine(torch.Tensor):
    """A tensor by a class of the program's."""


KNOWN["subclass"] = torch.ones(123).as_subclass(Mine)

UNKNOWN = {
    "of numpy": torch.from_numpy(NUMBERS),
    "of a buffer": torch.frombuffer(bytearray(5000), dtype=torch.uint8),
    "sparse": torch.eye(50).to_sparse(),
    "of an array of numpy's storage": torch.from_numpy(NUMBERS).untyped_storage(),
}


def bytes_of(what):
    """By torch; a device without memory has none."""
    storage = what if isinstance(what, torch.UntypedStorage) else what.untyped_storage()
    return storage.nbytes() if storage.device.type == "cpu" else 0


def main():
    core = load(sys.argv[1])
    found = {name: (*core.owned_by(each), bytes_of(each)) for name, each in KNOWN.items()}
    found["with gradient"] = (*core.owned_by(LAYER.weight), bytes_of(LAYER.weight) + bytes_of(LAYER.weight.grad))
    found.update((name, (*core.owned_by(each), None)) for name, each in UNKNOWN.items())
    graph = LAYER(torch.ones(5, 200))
    own, has_more = core.owned_by(graph)
    found["beside a graph"] = (own - bytes_of(graph), has_more, None)
    found["no torch._C.TensorBase"] = (*core.owned_by(lookalike("torch._C.TensorBase", BASE)), None)
    print(ascii(found))


if __name__ == "__main__":
    main()
