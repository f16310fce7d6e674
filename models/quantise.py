#!/usr/bin/env python3
"""Writes a model's matrices as int8.

    python3 models/quantise.py IN_FOLDER OUT_FOLDER

OUT_FOLDER gets config.json, vocab.txt and model.safetensors. Format: every matrix `M` (the embeddings and the `weight`
of every dense layer) has dtype I8, and a vector `M.scale` of dtype F32 with one value per row stands beside it:
M[r][c] = scale[r] * int8[r][c]. Norms and biases stay F32. Only the first 128 positions are kept, since no longer text
is encoded; the pooler, which mean pooling does not use, is left out. Tensor names are those of the published model.
"""
import json, os, shutil, sys

import numpy as np

from encoder import TOKENS, read_tensors


def main():
    source, target = sys.argv[1:3]
    os.makedirs(target, exist_ok=True)
    out = {}
    for name, tensor in read_tensors(f"{source}/model.safetensors").items():
        name, values = name.removeprefix("bert."), tensor.numpy()
        if name.startswith("pooler") or "position_ids" in name:
            continue
        if "position_embeddings" in name:
            values = values[:TOKENS]
        if values.ndim == 2 and "token_type" not in name:
            scale = np.maximum(np.abs(values).max(1), 1e-12) / 127
            out[name] = np.clip(np.rint(values / scale[:, None]), -127, 127).astype(np.int8)
            out[f"{name}.scale"] = scale.astype(np.float32)
        else:
            out[name] = values.astype(np.float32)
    header, start = {"__metadata__": {"format": "pt", "quantisation": "int8 per row"}}, 0
    # float tensors first, so that they stay aligned to four bytes
    order = sorted(out, key=lambda n: (out[n].dtype == np.int8, n))
    for name in order:
        kind = "I8" if out[name].dtype == np.int8 else "F32"
        header[name] = {"dtype": kind, "shape": list(out[name].shape), "data_offsets": [start, start + out[name].nbytes]}
        start += out[name].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{target}/model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(out[name].tobytes())
    about = json.load(open(f"{source}/config.json"))
    about["max_position_embeddings"] = TOKENS
    json.dump(about, open(f"{target}/config.json", "w"), indent=1)
    shutil.copy(f"{source}/vocab.txt", f"{target}/vocab.txt")
    print(f"{(start + len(text) + 8) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
