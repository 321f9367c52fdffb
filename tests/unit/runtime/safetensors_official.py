"""What the official safetensors library sees in a file that the runtime has written.

    safetensors_official.py read FILE    each tensor's name, type, shape and bytes, then the metadata, sorted
    safetensors_official.py copy FILE    reads it, and writes the tensors to FILE.copy

Exits with 77 where the library is not installed.
"""

import sys

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:
    print(error)
    sys.exit(77)

TYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
}


def main(command, path):
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata() or {}
    if command == "copy":
        save_file(tensors, path + ".copy")
        return
    for name, tensor in sorted(tensors.items()):
        data = bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
        print(f"{name} {TYPES[tensor.dtype]} [{','.join(map(str, tensor.shape))}] {data.hex()}")
    for key, value in sorted(metadata.items()):
        print(f"{key}={value}")


main(*sys.argv[1:])
