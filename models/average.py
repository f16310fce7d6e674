#!/usr/bin/env python3
"""Averages the weights of a trained model with those of its base, or with those of another model of the same base.

    python3 models/average.py BASE TRAINED OUT --share .85

`--share` is that of the trained weights. Each folder has config.json, vocab.txt and model.safetensors, as `train.py` or
`quantise.py` writes them. Computes in 32-bit floating point, so that the result depends on nothing else.
"""
import argparse, os

import encoder


def average(base, new, share):
    return {k: (1 - share) * base[k] + share * new[k] if base[k].is_floating_point() else base[k] for k in base}


def main():
    from train import write

    parser = argparse.ArgumentParser()
    for name in ("base", "trained", "out"):
        parser.add_argument(name)
    parser.add_argument("--share", type=float, required=True)
    options = parser.parse_args()
    # A quantised model has only the positions that are used.
    cut = lambda name, value: value[:encoder.TOKENS] if "position_embeddings" in name else value
    read = lambda folder: encoder.read_tensors(f"{folder}/model.safetensors").items()
    base, new = ({k.removeprefix("bert."): cut(k, v) for k, v in read(folder)} for folder in (options.base, options.trained))
    base = {k: v for k, v in base.items() if k in new}
    missing = set(new) - set(base)
    if missing:
        raise SystemExit(f"{options.base}: weights are missing: {sorted(missing)[:5]}")
    os.makedirs(options.out, exist_ok=True)
    write(average(base, new, options.share), options, options.out)


if __name__ == "__main__":
    main()
