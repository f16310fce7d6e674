"""The training data: tools, questions, and which servers are held out."""
import gzip, glob, json, os, zlib

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
