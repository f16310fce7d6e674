#!/usr/bin/env python3
"""nDCG@10 and R@5 of a model on the tool-search sets.

    python3 models/evaluate.py MODEL_FOLDER --data ../shared/retrieval            the tuning sets
    python3 models/evaluate.py MODEL_FOLDER --data ../shared/retrieval --report   the other given sets, too

`--data` is a folder with the sets and their evaluator `eval.py`, whose loader, metric, word ranker and fusion are used.
`held` is the set of our own questions whose servers are held out of training, over the whole tool list. Columns:
`alone` = one vector per tool, `views` = the largest cosine of three texts; `one a` and `a` = the same fused with words,
a * words + (1 - a) * nearness.
Needs torch, tokenizers, numpy and PyStemmer.
"""
import argparse, importlib.util, sys

import numpy as np
import torch

import data, encoder

TUNING = ["toollinkos", "sealtools_dev"]
REPORT = ["mcpproxy45", "livemcp_step", "livemcp_step_8k", "metatool_multi"]
WEIGHTS = (.2, .3, .4, .5)


def evaluator(folder):
    spec = importlib.util.spec_from_file_location("evaluator", f"{folder}/eval.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def held():
    """Our own questions about held-out servers, as a set of the evaluator."""
    tools = list(data.tools().values())
    place = {t["id"]: i for i, t in enumerate(tools)}
    chosen = [(q, ids) for q, ids in data.questions() if all(data.held_out(tools[place[i]]["server"]) for i in ids)]
    tools = [dict(t, input_schema={"properties": {a: {} for a in t["arguments"]}}) for t in tools]
    return tools, [{"query": q, "g": [[place[i]] for i in ids], "gain": [1] * len(ids)} for q, ids in chosen]


class Sets:
    """The sets with the scores of the word ranker, which are the same for every model."""

    def __init__(self, folder, names):
        self.kit, self.sets = evaluator(folder), {}
        for name in names:
            tools, queries = held() if name == "held" else self.kit.load(name)
            words = self.kit.BM25F(tools, **self.kit.REC)
            scores = np.stack([words.scores(q["query"]) for q in queries]).astype(np.float32)
            self.sets[name] = (tools, queries, scores)

    def measure(self, model, tokenizer, device, metrics=("nDCG@10", "R@5")):
        """{set: {column: {metric: value}}}"""
        out = {}
        for name, (tools, queries, words) in self.sets.items():
            texts = [view for t in tools for view in encoder.views(t["server"], t["name"], t["description"])]
            docs = encoder.embed(model, tokenizer, texts, device).reshape(len(tools), 3, -1)
            asked = encoder.embed(model, tokenizer, [q["query"] for q in queries], device)
            alone = asked @ docs[:, 0].T
            most = np.max([asked @ docs[:, v].T for v in range(3)], axis=0)
            top = words.max(1, keepdims=True)
            top[top == 0] = 1
            columns = {"alone": alone, "views": most}
            for kind, scores in (("one a", alone), ("a", most)):
                low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
                near = (scores - low) / np.maximum(high - low, 1e-9)
                columns.update({f"{kind}={a}": a * words / top + (1 - a) * near for a in WEIGHTS})
            out[name] = {}
            for column, scores in columns.items():
                ranked = np.argsort(-scores, axis=1, kind="stable")[:, :100]
                per = [self.kit.score(r.tolist(), q) for r, q in zip(ranked, queries)]
                out[name][column] = {m: sum(p[m] for p in per) / len(per) for m in metrics}
        return out


def table(result, metric="nDCG@10"):
    columns = list(next(iter(result.values())))
    lines = [f"| {metric} | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for name, row in result.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[c][metric]:.3f}" for c in columns) + " |")
    means = [sum(r[c][metric] for r in result.values()) / len(result) for c in columns]
    return "\n".join(lines + ["| mean | " + " | ".join(f"{m:.3f}" for m in means) + " |"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, tokenizer = encoder.load(options.model, device)
    for names in [TUNING + ["held"]] + ([REPORT] if options.report else []):
        result = Sets(options.data, names).measure(model, tokenizer, device)
        print(table(result), table(result, "R@5"), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    sys.exit(main())
