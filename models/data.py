"""The training data: tools, questions, which servers are held out, and questions that ask for several things."""
import gzip, glob, json, os, random, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
HELD = 12  # one server in twelve is held out


def held_out(server):
    return zlib.crc32(server.encode()) % HELD == 0


def tools(path=f"{HERE}/data/tools.jsonl.gz"):
    """Tool id -> {server, name, description, arguments}."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {t["id"]: t for t in map(json.loads, lines)}


def questions(folder=f"{HERE}/data/questions"):
    """[(question, [tool ids])], in the order of the files."""
    out = []
    for path in sorted(glob.glob(f"{folder}/*.tsv")):
        for line in open(path, encoding="utf-8"):
            ids, question = line.rstrip("\n").split("\t")
            out.append((question, ids.split(",")))
    return out


# How several questions become one. `{}` are the questions; the second and later ones begin with a small letter unless a sentence ends.
PAIRS = ("{} and {}", "{} and then {}", "{}, then {}", "{}; {}", "{}. {}", "{}, and also {}", "{}. Then {}", "{}, {}", "first {}, then {}",
         "{}. Also, {}", "{}. After that {}", "{}, plus {}", "I need two things: {}, and {}", "{} & {}", "{}, but first {}")
TRIPLES = ("{}, {} and {}", "{}, then {}, then {}", "{}. {}. {}", "{}; {}; {}", "{} and {}, and finally {}", "first {}, then {} and {}",
           "{}. Then {}. Also {}")
SEVERAL_OF_THREE = .25  # the share of joined questions that have three parts
SAME_SERVER = .5  # the share of them whose parts are about one server


def part(question, follows):
    """A question as a part of another one: without its last full stop and, if it follows other words, its first capital."""
    question = question.strip().rstrip(".?! ")
    if follows and len(question) > 1 and question[0].isupper() and question[1].islower():
        question = question[0].lower() + question[1:]
    return question


def join(questions, rng):
    """One question that asks for several things."""
    form = rng.choice(PAIRS if len(questions) == 2 else TRIPLES)
    ends = form.split("{}")
    return form.format(*(part(q, ends[i].strip() not in ("", ".")) for i, q in enumerate(questions)))


def joined(singles, count, seed):
    """[(question, [right documents])]: questions that join two or three of `singles`, which are (question, document, server)."""
    rng, by_server, out = random.Random(seed), {}, []
    for single in singles:
        by_server.setdefault(single[2], []).append(single)
    while len(out) < count:
        parts = [rng.choice(singles)]
        among = by_server[parts[0][2]] if rng.random() < SAME_SERVER else singles
        wanted = 3 if rng.random() < SEVERAL_OF_THREE else 2
        for _ in range(20):
            other = rng.choice(among)
            if len(parts) < wanted and all(other[1] != p[1] for p in parts):
                parts.append(other)
        if len(parts) == wanted:
            out.append((join([p[0] for p in parts], rng), [p[1] for p in parts]))
    return out
