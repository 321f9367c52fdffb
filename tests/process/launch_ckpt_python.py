"""Runs the Python passage of a document on a checkpoint.

    launch_ckpt_python.py DOCUMENT STEP_DIRECTORY EXPORTED NEW

Compares what it reads with the exported file, byte for byte, and writes it again as NEW. Exits with 77 where torch or
safetensors is not installed.
"""

import re
import sys
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    print(error)
    sys.exit(77)


def main(document, step_directory, exported, new):
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", Path(document).read_text(), flags=re.M | re.S):
        if block.startswith("# state_dict.py"):
            exec(compile(block, document, "exec"), names)
    state = names["load_state_dict"](step_directory)
    expected = load_file(exported)
    assert state.keys() == expected.keys(), (sorted(state), sorted(expected))
    for name, tensor in expected.items():
        assert state[name].dtype == tensor.dtype and state[name].shape == tensor.shape, name
        assert bytes(state[name].reshape(-1).view(torch.uint8).tolist()) == bytes(tensor.reshape(-1).view(torch.uint8).tolist()), name
    names["save_state_dict"](state, new)
    print(f"{len(state)} tensors are the same")


main(*sys.argv[1:])
