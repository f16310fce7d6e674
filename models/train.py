#!/usr/bin/env python3
"""Fine-tunes a sentence encoder for tool search.

    python3 models/train.py --base BASE --sets SETS --weak weak.json.gz --written written.jsonl.gz --out OUT [options]

BASE is a folder with config.json, vocab.txt and model.safetensors (all-MiniLM-L6-v2). Contrastive training (InfoNCE):
a batch holds questions of one source, their right tools, and for each question hard negatives: a near tool of the whole
list and, where servers are known, a near sibling of the same server (a near miss). All tools that are right for a
question are masked. The weights of the last steps are averaged (an exponential mean), and the result with BASE; the
share is chosen on the tuning sets only.

`--joined N` adds N questions that join two or three of the others, with all their tools right. `--judge` adds a loss by one threshold for
all questions, for the verdict that there is no such tool. OUT/training.json has the options, the versions and the hashes of all inputs.

For a machine without a GPU: `--frozen N` leaves the embeddings and the first N layers as they are, `--pieces` shortens
the texts, `--negatives words` takes near tools by shared words instead of embedding every list first, and `--every N`
writes the mean so far to OUT/N every N steps.

The sources `toollinkos` and `sealtools_dev` of the weak data are left out, since they are the tuning sets.
"""
import argparse, glob, gzip, hashlib, json, os, platform, random, shutil, struct, time
from importlib import metadata

import numpy as np
import torch

import data, encoder, evaluate
from average import average

WRITTEN_SEVERAL = 4  # how often a written question that asks for several things counts, for each joined one
ALIKE = .85  # cosine of two tools' texts above which neither is a negative for the other's questions
TUNING_SOURCES = ("toollinkos", "sealtools", "sealtools_dev")


class Source:
    """Documents, and questions with the numbers of their right documents."""

    def __init__(self, name, docs, pairs, weight):
        self.name, self.docs, self.pairs, self.weight = name, docs, pairs, weight
        self.servers = [d[0] if isinstance(d, tuple) else None for d in docs]
        same = {}
        self.kind = [same.setdefault(self.text(i), i) for i in range(len(docs))]  # equal texts count as one document

    def text(self, i):
        doc = self.docs[i]
        return encoder.described(*doc) if isinstance(doc, tuple) else doc[:encoder.LONGEST]

    def varied(self, i, rng):
        """The text of a document, at times without its name, its server or its details."""
        doc, draw = self.docs[i], rng.random()
        if not isinstance(doc, tuple):
            parts = doc.split(". ", 2)
            return (parts[-1] if draw < .3 and len(parts) == 3 and len(parts[-1]) > 20 else doc)[:encoder.LONGEST]
        whole, short, first = encoder.views(*doc)
        if draw < .50:
            return whole
        if draw < .62:
            return short
        if draw < .78:
            return first
        description = " ".join(doc[2].split())
        if draw < .90 or len(description) < 20:
            return f"{encoder.split(doc[1])}. {description}"[:encoder.LONGEST]
        return description[:encoder.LONGEST]


def sources(options):
    out = []
    weak = json.load(gzip.open(options.weak, "rt"))
    for name, part in weak.items():
        if not name.startswith(TUNING_SOURCES):
            pairs = [(q, list(ids)) for q, ids in part["pairs"]]
            out.append(Source(name, part["docs"], pairs, options.weak_weight * len(pairs) ** .5))
    docs, pairs = [], []
    for line in gzip.open(options.written, "rt"):
        tool = json.loads(line)
        docs.append((tool["server"], tool["name"], tool["description"]))
        pairs += [(q, [len(docs) - 1]) for q in tool["queries"]]
    out.append(Source("written", docs, pairs, options.written_weight * len(pairs) ** .5))
    tools = list(data.tools().values())
    place = {t["id"]: i for i, t in enumerate(tools)}
    docs = [(t["server"], t["name"], t["description"]) for t in tools]
    pairs = [(q, [place[i] for i in ids]) for q, ids in data.questions() if not any(data.held_out(tools[place[i]]["server"]) for i in ids)]
    out.append(Source("ours", docs, pairs, options.our_weight * len(pairs) ** .5))
    if options.joined:
        out.append(several(options, out[-2], out[-1]))
    return [s for s in out if s.weight > 0 and s.pairs]


def several(options, *given):
    """Questions that ask for several things: those that were written, and joined ones, over the documents of all given sources."""
    docs, singles, written = [], [], []
    for source in given:
        first = len(docs)
        docs += source.docs
        for question, right in source.pairs:
            right = [first + i for i in right]
            if len(right) == 1:
                singles.append((question, right[0], source.servers[right[0] - first]))
            else:
                written.append((question, right))
    pairs = data.joined(singles, options.joined, options.seed) + WRITTEN_SEVERAL * written
    return Source("several", docs, pairs, options.joined_weight * len(pairs) ** .5)


class ByWords:
    """Near documents of a question by the words that they share, looked up when the question is drawn."""

    def __init__(self, source, kit):
        tools = []
        for doc in source.docs:
            server, name, description = doc if isinstance(doc, tuple) else ("", doc.split(". ")[0], doc.split(". ", 1)[-1])
            tools.append({"server": server, "name": name, "description": description})
        self.source, self.ranker = source, kit.BM25F(tools)
        self.words = [frozenset(source.text(i).lower().split()) for i in range(len(tools))]
        self.by_server = {}
        for i, server in enumerate(source.servers):
            self.by_server.setdefault(server, []).append(i)

    def alike(self, a, b):
        a, b = self.words[a], self.words[b]
        return len(a & b) > .7 * len(a | b)

    def __call__(self, i):
        """(near documents, near documents of the right one's server)"""
        question, right = self.source.pairs[i]
        kinds = {self.source.kind[r] for r in right}
        wrong = lambda d: self.source.kind[d] not in kinds and not any(self.alike(d, r) for r in right)
        scores = self.ranker.scores(question)
        near = [d for d in np.argpartition(-scores, min(24, len(scores) - 1))[:24].tolist() if wrong(d)]
        server = self.source.servers[right[0]]
        siblings = sorted(self.by_server[server], key=lambda d: -scores[d])[:10] if server else []
        return near, [d for d in siblings if wrong(d)][:8]


def mine(source, model, tokenizer, device, depth=16):
    """For each question, near documents that are not right: of the whole list, and of the right tool's server."""
    docs = torch.from_numpy(encoder.embed(model, tokenizer, [source.text(i) for i in range(len(source.docs))], device)).to(device)
    asked = torch.from_numpy(encoder.embed(model, tokenizer, [q for q, _ in source.pairs], device)).to(device)
    by_server = {}
    for i, server in enumerate(source.servers):
        by_server.setdefault(server, []).append(i)
    near, siblings = [], []
    for start in range(0, len(asked), 1024):
        scores = asked[start:start + 1024] @ docs.T
        # A tool that reads almost like the right one may well be right, too.
        alike = docs[[source.pairs[start + row][1][0] for row in range(len(scores))]] @ docs.T > ALIKE
        scores = scores.masked_fill(alike, -1)
        best = scores.topk(min(depth + 8, len(docs))).indices.tolist()
        scores = scores.cpu().numpy()
        for row, ids in enumerate(best):
            right = source.pairs[start + row][1]
            kinds = {source.kind[i] for i in right}
            near.append([i for i in ids if source.kind[i] not in kinds and scores[row][i] > -1][:depth])
            server = source.servers[right[0]]
            same = [i for i in by_server[server] if source.kind[i] not in kinds and scores[row][i] > -1] if server else []
            siblings.append(sorted(same, key=lambda i: -scores[row][i])[:8])
    return lambda i: (near[i], siblings[i])


def misjudged(cosines, mask, middle, width):
    """The loss of a judge who takes every tool that is nearer than `middle` for the right one: of the right tools and of the nearest
    wrong ones. Without it, only differences between the tools of one question count, and a threshold for all questions means little."""
    right = cosines.diagonal()
    wrong = cosines.masked_fill(mask, -1).fill_diagonal_(-1).amax(1)
    soft = torch.nn.functional.softplus
    return soft((middle - right) / width).mean() + soft((wrong - middle) / width).mean()


def typo(text, rng):
    """The text as typed in haste: one letter swapped, dropped or doubled."""
    at = rng.randrange(max(1, len(text) - 1))
    draw = rng.random()
    if draw < .4:
        return text[:at] + text[at + 1:at + 2] + text[at:at + 1] + text[at + 2:]
    return text[:at] + text[at + 1:] if draw < .8 else text[:at] + text[at:at + 1] + text[at:]


def train(options, model, tokenizer, all_sources, mined, device, base):
    """Trains the model in place and returns the mean of the weights of the last steps."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    # Without dropout: few epochs, and the states of frozen layers are the same every time.
    model.eval()
    steps, batch = options.steps, options.batch
    lower = encoder.freeze(model, options.frozen)
    learnt = {n: p for n, p in model.named_parameters() if p.requires_grad}
    decay = [p for p in learnt.values() if p.ndim > 1]
    plain = [p for p in learnt.values() if p.ndim == 1]
    optimiser = torch.optim.AdamW([{"params": decay, "weight_decay": .01}, {"params": plain, "weight_decay": 0}], lr=options.lr)
    rate = lambda s: min((s + 1) / (.1 * steps), max(options.floor, (steps - s) / (.9 * steps)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    orders = {s.name: [] for s in all_sources}
    mean = {n: p.detach().clone() for n, p in learnt.items()}
    losses, started, cpu = [], time.time(), time.process_time()
    for step in range(steps):
        source = rng.choices(all_sources, [s.weight for s in all_sources])[0]
        order = orders[source.name]
        if len(order) < batch:
            fresh = list(range(len(source.pairs)))
            rng.shuffle(fresh)
            order += fresh
        taken, orders[source.name] = order[:batch], order[batch:]
        right = [rng.choice(source.pairs[i][1]) for i in taken]
        columns = list(right)
        for i in taken:
            near, siblings = mined[source.name](i)
            # A sibling, a near one of the whole list, or both, as many as fit into `negatives` for each question.
            picks = [rng.choice(kind) for kind in (siblings, near) if kind]
            rng.shuffle(picks)
            columns += picks[:options.negatives_each]
        kinds = np.array([source.kind[c] for c in columns])
        mask = np.zeros((len(taken), len(columns)), bool)
        for row, i in enumerate(taken):
            for r in source.pairs[i][1]:
                mask[row] |= kinds == source.kind[r]
            mask[row, row] = False
        questions = [source.pairs[i][0] for i in taken]
        questions = [typo(q, rng) if rng.random() < options.typos else q for q in questions]
        asked = [e.ids for e in tokenizer.encode_batch(questions)]
        docs = [e.ids for e in tokenizer.encode_batch([source.varied(c, rng) for c in columns])]
        with torch.autocast(device, torch.bfloat16):
            a, d = (encoder.encode(model, ids, device, lower, options.group) for ids in (asked, docs))
        cosines, mask = a @ d.T, torch.from_numpy(mask).to(device)
        scores = (cosines / options.temperature).masked_fill(mask, -1e4)
        target = torch.arange(len(taken), device=device)
        loss = torch.nn.functional.cross_entropy(scores, target)
        if options.judge and source.name != "several":
            loss = loss + options.judge * misjudged(cosines, mask, options.middle, options.width)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        keep = min(options.mean, step / (step + 10))
        for name, value in learnt.items():
            mean[name].lerp_(value.detach(), 1 - keep)
        if step % 10 == 9:
            print(f"  step {step + 1} loss {np.mean(losses[-50:]):.3f} {time.time() - started:.0f} s, {time.process_time() - cpu:.0f} s of CPU", flush=True)
        if options.every and step % options.every == options.every - 1:
            write({**base, **mean}, options, f"{options.out}/{step + 1}")
        if step + 1 == options.stop:
            break
    return {**base, **mean}


def record(options, all_sources):
    """Writes what a repetition needs to OUT/training.json: options, versions, and the hashes of the inputs."""
    def digest(path):
        return hashlib.sha256(open(path, "rb").read()).hexdigest()

    inputs = [f"{options.base}/{name}" for name in ("config.json", "vocab.txt", "model.safetensors")]
    inputs += [options.weak, options.written, f"{options.sets}/eval.py", f"{data.HERE}/data/tools.jsonl.gz"]
    inputs += sorted(glob.glob(f"{data.HERE}/data/questions/*.tsv")) + sorted(glob.glob(f"{data.HERE}/*.py"))
    processor = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")] if os.path.exists("/proc/cpuinfo") else []
    about = {
        "options": vars(options), "threads": torch.get_num_threads(), "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": processor[:1], "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in ("torch", "tokenizers", "numpy", "PyStemmer")},
        "sources": {s.name: {"documents": len(s.docs), "questions": len(s.pairs), "weight": round(s.weight, 1)} for s in all_sources},
        "sha256": {os.path.basename(path): digest(path) for path in inputs},
    }
    os.makedirs(options.out, exist_ok=True)
    with open(f"{options.out}/training.json", "w") as file:
        json.dump(about, file, indent=1)


def write(state, options, folder):
    """The weights as float32 in the safetensors format, with the base model's config.json and vocab.txt."""
    os.makedirs(folder, exist_ok=True)
    header, parts, start = {}, [], 0
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        values = tensor.detach().float().cpu().numpy()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [start, start + values.nbytes]}
        start += values.nbytes
        parts.append(values.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    for name in ("config.json", "vocab.txt"):
        shutil.copy(f"{options.base}/{name}", f"{folder}/{name}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("base", "sets", "weak", "written", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--temperature", type=float, default=.05)
    parser.add_argument("--typos", type=float, default=.05)
    parser.add_argument("--weak-weight", type=float, default=1.0)
    parser.add_argument("--written-weight", type=float, default=2.0)
    parser.add_argument("--our-weight", type=float, default=2.0)
    parser.add_argument("--shares", default="0.5,0.6,0.7,0.8,0.9,1.0")
    parser.add_argument("--frozen", type=int, default=0)
    parser.add_argument("--pieces", type=int, default=encoder.TOKENS)
    parser.add_argument("--group", type=int, default=0, help="texts of similar length that are encoded together; 0 for all")
    parser.add_argument("--negatives", choices=["words", "model"], default="model")
    parser.add_argument("--negatives-each", type=int, default=2)
    parser.add_argument("--floor", type=float, default=0, help="the least share of the learning rate")
    parser.add_argument("--mean", type=float, default=0, help="what the mean of the weights keeps at each step")
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--stop", type=int, default=0, help="the last step, if it is not the last one of the schedule")
    parser.add_argument("--joined", type=int, default=0, help="how many questions that ask for several things are made of others")
    parser.add_argument("--joined-weight", type=float, default=1.0)
    parser.add_argument("--judge", type=float, default=0, help="the weight of the loss by a threshold that is the same for all questions")
    parser.add_argument("--middle", type=float, default=.45, help="that threshold, a cosine")
    parser.add_argument("--width", type=float, default=.05, help="how sharp it is")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=19)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, tokenizer = encoder.load(options.base, device)
    base = {k: v.clone() for k, v in model.state_dict().items()}
    all_sources = sources(options)
    print({s.name: (len(s.docs), len(s.pairs), round(s.weight)) for s in all_sources}, flush=True)
    record(options, all_sources)
    if options.negatives == "words":
        kit = evaluate.evaluator(options.sets)
        mined = {s.name: ByWords(s, kit) for s in all_sources}
    else:
        mined = {s.name: mine(s, model, tokenizer, device) for s in all_sources}
    tokenizer.enable_truncation(options.pieces)
    new = train(options, model, tokenizer, all_sources, mined, device, base)
    tokenizer.enable_truncation(encoder.TOKENS)
    shares = [float(s) for s in options.shares.split(",") if s]
    if not shares:
        write(new, options, options.out)
        return
    sets, best = evaluate.Sets(options.sets, evaluate.TUNING + ["held"]), None
    for share in shares:
        model.load_state_dict(average(base, new, share))
        result = sets.measure(model, tokenizer, device)
        means = {c: sum(r[c]["nDCG@10"] for r in result.values()) / len(result) for c in next(iter(result.values()))}
        print(share, {c: round(m, 4) for c, m in means.items()}, flush=True)
        figure = max(m for c, m in means.items() if "a=" in c)
        if best is None or figure > best[0]:
            best = (figure, share, result)
    figure, share, result = best
    print(f"best share {share}: {figure:.4f}\n{evaluate.table(result)}")
    write(average(base, new, share), options, options.out)


if __name__ == "__main__":
    main()
