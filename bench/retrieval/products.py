#!/usr/bin/env python3
"""How many products the search knows by name, measured with the servers of the training data.

    bench/retrieval/products.py

Questions that have a word of their server's name are asked with every tool hidden that has this word in its own texts: is a product
named? And answerable questions are asked: is one named that no tool mentions? Words only, without the model.
"""
import collections, json, os, random, re, sys

import run

sys.path.insert(0, os.path.join(run.ROOT, "models"))
import data

SEED, HIDDEN, ANSWERABLE = 7, 600, 3_000
# Words of servers' names that say what kind of thing they are.
GENERAL = set("mcp server tool tools api the and for with cli app data io ai js py org com dev cloud code core sdk client service "
              "services web local remote open my".split())


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def main():
    tools = data.tools()
    questions = [(text, ids) for text, ids in data.questions() if all(i in tools for i in ids)]
    having = collections.defaultdict(set)
    for i, tool in tools.items():
        for word in words(" ".join(tool[key] for key in ("name", "server", "description"))):
            having[word].add(i)
    naming = []
    for text, ids in questions:
        asked = set(words(text))
        own = [word for word in words(tools[ids[0]]["server"]) if len(word) > 2 and word not in GENERAL and word in asked]
        naming += [(text, own[0])] if own else []
    rng = random.Random(SEED)
    rng.shuffle(naming)
    naming, answerable = naming[:HIDDEN], rng.sample(questions, ANSWERABLE)
    listed = [dict(tool, input_schema={"properties": {name: {} for name in tool["arguments"]}}) for tool in tools.values()]
    [rank] = run.build("rank")
    answers = run.ask(rank, listed, [(text, sorted(having[word])) for text, word in naming] + [(text, []) for text, _ in answerable])
    named = sum(bool(answer["absent"]) for answer in answers[:len(naming)])
    print(f"a product is named for {named} of {len(naming)} questions whose tools are hidden ({named / len(naming):.1%})")
    wrong = [(text, answer) for (text, _), answer in zip(answerable, answers[len(naming):]) if answer["absent"]]
    none = sum(answer["verdict"] == "no such tool" for _, answer in wrong)
    print(f"for {len(wrong)} of {len(answerable)} answerable ones; {none} of these get \"no such tool\"")
    for text, answer in wrong:
        print(f"  {', '.join(answer['absent'])}: {text}")


if __name__ == "__main__":
    main()
