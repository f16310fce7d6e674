#!/usr/bin/env python3
"""Writes a tiny random model and the vectors that this encoder gives for it: what the tests of muster-search compare with.

    python3 models/tiny.py crates/muster-search/tests/tiny

Also needs transformers, which draws the weights.
"""
import json, os, subprocess, sys, tempfile

import torch
from transformers import BertConfig, BertModel

import encoder, train

HERE = os.path.dirname(os.path.abspath(__file__))
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "list", "pull", "request", "##s", "the", "delete", "file", "open", ".", "a", "branch"]
TEXTS = ["list pull requests", "Delete the file.", "open a branch unknownword", "", "the " * 200]


def main():
    target = sys.argv[1]
    os.makedirs(target, exist_ok=True)
    torch.manual_seed(19)
    config = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                        max_position_embeddings=140, initializer_range=.3)
    with tempfile.TemporaryDirectory() as folder:
        json.dump(config.to_dict(), open(f"{folder}/config.json", "w"))
        pieces = PIECES + [f"[unused{i}]" for i in range(120 - len(PIECES))]
        open(f"{folder}/vocab.txt", "w").write("\n".join(pieces) + "\n")
        options = type("Options", (), {"base": folder})
        state = BertModel(config, add_pooling_layer=False).state_dict()
        os.makedirs(f"{folder}/whole")
        train.write(state, options, f"{folder}/whole")
        subprocess.run([sys.executable, f"{HERE}/quantise.py", f"{folder}/whole", target], check=True)
    keep = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings", "vocab_size")
    json.dump({k: v for k, v in config.to_dict().items() if k in keep} | {"max_position_embeddings": 128}, open(f"{target}/config.json", "w"))
    model, tokenizer = encoder.load(target)
    vectors = encoder.embed(model, tokenizer, TEXTS).tolist()
    with open(f"{target}/vectors.jsonl", "w") as file:
        for text, vector in zip(TEXTS, vectors):
            file.write(json.dumps({"text": text, "vector": [round(x, 6) for x in vector]}) + "\n")


if __name__ == "__main__":
    main()
