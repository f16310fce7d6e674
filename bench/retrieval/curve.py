#!/usr/bin/env python3
"""The rate of "no such tool" verdicts by threshold, for answerable and unanswerable queries.

    bench/retrieval/curve.py --data ../shared/retrieval --model DIR

A question has no answer where everything that is like its right tools is hidden: those themselves, and
whatever is as near to one of them in meaning as NEAR. Tools are held against tools for that, never against
the question, so that the measure is not the thing measured. Own questions are asked like that, and those of
other sets. Needs numpy; `run.py` does the rest.
"""
import argparse, os, random
import numpy as np
import run

# Tools this similar are near duplicates.
NEAR = .55
CATALOGS = ["mcpproxy45", "livemcp_step", "livemcp_step_8k", "metatool_multi"]
ASKED = ["mcpproxy45", "livemcp_step", "metatool_multi", "toollinkos", "sealtools_dev"]
MOST = 300
WORDS = (.03, .0425, .05, .06, .07, .085, .10, .12)
MEANING = (.34, .38, .42, .46, .50, .53, .56, .60)


def evidence(program, tools, vectors, questions, hidden):
    """For each query its lexical score, and the similarity of the nearest tool."""
    ids = [tool["id"] for tool in tools]
    asked = [(query["query"], [ids[at] for at in np.flatnonzero(mask)]) for query, mask in zip(questions, hidden)]
    encoder, run.ENCODER = run.ENCODER, None
    answers = run.ask(program, tools, asked)
    run.ENCODER = encoder
    nearness = np.array(encoder.of([query["query"] for query in questions])) @ vectors.T
    nearness[hidden] = -1
    return np.array([answer["strength"] for answer in answers]), nearness.max(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    module = run.evaluator(args.data)
    wanted = args.only.split(",") if args.only else sorted({*CATALOGS, *ASKED})
    sets = {name: module.load(name) for name in wanted if os.path.isdir(os.path.join(args.data, name))}
    (rank,) = run.build("rank")
    run.ENCODER = run.Encoder(*run.build("embed"), args.model)
    vectors = {name: np.array(run.ENCODER.of([run.described(tool) for tool in tools])) for name, (tools, _) in sets.items()}
    place = {name: {tool["id"]: at for at, tool in enumerate(tools)} for name, (tools, _) in sets.items()}
    there, none = {}, {}
    for name in (name for name in CATALOGS if name in sets):
        tools = sets[name][0]
        for asked in (asked for asked in {*ASKED, name} if asked in sets):
            if name == "livemcp_step_8k" and asked == "livemcp_step":
                continue
            questions = list(sets[asked][1])
            random.Random(run.SEED).shuffle(questions)
            if asked == name:
                seen = np.zeros((len(questions), len(tools)), bool)
                there[name] = evidence(rank, tools, vectors[name], questions, seen)
            questions = questions[:MOST]
            right = [[place[asked][i] for i in query["relevant"]] for query in questions]
            alike = [(vectors[name] @ vectors[asked][golds].T).max(1) >= NEAR for golds in right]
            own = "own" if asked == name else "others'"
            none.setdefault((name, own), []).append(evidence(rank, tools, vectors[name], questions, np.array(alike)))
    for title, lines, sign in (("words", WORDS, lambda strength, _: strength),
                               ("words and meaning", MEANING, lambda strength, near: near + 2 * strength)):
        names = list(there)
        print(f"\n| {title}: line | " + " | ".join(f"{name}: false" for name in names) + " | "
              + " | ".join(f"{name}: own hidden, others'" for name in names) + " |")
        print("|---" * (1 + 2 * len(names)) + "|")
        for line in lines:
            below = lambda rows: np.mean(np.concatenate([sign(*row) < line for row in rows]))
            false = [f"{below([there[name]]):.3f}" for name in names]
            missed = [", ".join(f"{below(none[name, own]):.2f}" for own in ("own", "others'") if (name, own) in none) for name in names]
            print(f"| {line} | " + " | ".join(false + missed) + " |")


if __name__ == "__main__":
    main()
