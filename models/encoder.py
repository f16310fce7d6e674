"""The sentence encoder in PyTorch: a BERT encoder with mean pooling, as `crates/muster-search/src/encoder.rs` runs it."""
import json, re

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import nn

LONGEST = 360  # characters of a tool's text, as in crates/muster-search/src/meaning.rs
TOKENS = 128  # word pieces of a text, as in crates/muster-search/src/encoder/bert.rs

_camel = re.compile(r"([a-z0-9])([A-Z])")


def split(name):
    """The words of an identifier."""
    return " ".join(re.sub(r"[\W_]+", " ", _camel.sub(r"\1 \2", name)).split())


def described(server, name, description):
    """The text that is embedded for a tool."""
    return f"{split(name)}. {split(server)}. {' '.join((description or '').split())}"[:LONGEST]


def views(server, name, description):
    """Three texts for a tool; the largest cosine counts."""
    first = re.split(r"(?<=[.!?])\s", " ".join((description or "").split()))[0]
    return [described(server, name, description), f"{split(name)}. {split(server)}.", f"{split(name)}. {first}"[:LONGEST]]


def read_tensors(path):
    """The tensors of a safetensors file as float32; int8 ones are multiplied by their row's scale."""
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    kinds = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "I64": np.int64}
    raw = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        start, end = about["data_offsets"]
        raw[name] = np.frombuffer(data[8 + size + start:8 + size + end], kinds[about["dtype"]]).reshape(about["shape"])
    out = {}
    for name, values in raw.items():
        if name.endswith(".scale") or values.dtype == np.int64:
            continue
        values = values.astype(np.float32)
        if f"{name}.scale" in raw:
            values = values * raw[f"{name}.scale"][:, None]
        out[name] = torch.from_numpy(np.array(values))
    return out


def group(**parts):
    module = nn.Module()
    for name, part in parts.items():
        module.add_module(name, part)
    return module


class Layer(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, hidden, inner, heads):
        super().__init__()
        wide = lambda: nn.Linear(hidden, hidden)
        norm = lambda: nn.LayerNorm(hidden, eps=1e-12)
        self.heads = heads
        self.attention = group(self=group(query=wide(), key=wide(), value=wide()), output=group(dense=wide(), LayerNorm=norm()))
        self.intermediate = group(dense=nn.Linear(hidden, inner))
        self.output = group(dense=nn.Linear(inner, hidden), LayerNorm=norm())

    def forward(self, states, mask):
        inside, output = self.attention._modules["self"], self.attention.output
        query, key, value = (part(states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (inside.query, inside.key, inside.value))
        seen = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(-2)
        states = output.LayerNorm(output.dense(seen) + states)
        return self.output.LayerNorm(self.output.dense(nn.functional.gelu(self.intermediate.dense(states))) + states)


class Bert(nn.Module):
    """BERT without its pooler and without dropout; its tensors have the names of the published model."""

    def __init__(self, words, places, kinds, hidden, inner, heads, layers):
        super().__init__()
        table = lambda rows: nn.Embedding(rows, hidden)
        self.embeddings = group(word_embeddings=table(words), position_embeddings=table(places), token_type_embeddings=table(kinds),
                                LayerNorm=nn.LayerNorm(hidden, eps=1e-12))
        self.encoder = group(layer=nn.ModuleList(Layer(hidden, inner, heads) for _ in range(layers)))

    def embedded(self, ids):
        parts = self.embeddings
        return parts.LayerNorm(parts.word_embeddings(ids) + parts.position_embeddings.weight[:ids.shape[1]] + parts.token_type_embeddings.weight[0])


def load(folder, device="cpu"):
    """The model and the tokenizer of a folder with config.json, vocab.txt and model.safetensors."""
    about = json.load(open(f"{folder}/config.json"))
    tensors = {k.removeprefix("bert."): v for k, v in read_tensors(f"{folder}/model.safetensors").items()}
    rows = lambda name: tensors[f"embeddings.{name}_embeddings.weight"].shape[0]
    model = Bert(rows("word"), rows("position"), rows("token_type"), about["hidden_size"], about["intermediate_size"],
                 about["num_attention_heads"], about["num_hidden_layers"])
    missing, _ = model.load_state_dict(tensors, strict=False)
    if missing:
        raise SystemExit(f"{folder}: weights are missing: {missing[:5]}")
    tokenizer = BertWordPieceTokenizer(f"{folder}/vocab.txt", lowercase=True)
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    if tokenizer.encode("list pull requests").ids.count(100):
        raise SystemExit("the tokenizer maps plain words to unknown tokens")
    return model.to(device), tokenizer


def freeze(model, layers):
    """Leaves the embeddings and the first layers as they are. Returns the number of frozen layers."""
    if layers:
        for part in (model.embeddings, *model.encoder.layer[:layers]):
            part.requires_grad_(False)
    return layers


def encode(model, ids, device, frozen=0, together=0):
    """The vectors of tokenised texts, of length 1.

    `frozen` layers are run without a graph; texts of similar length are encoded `together` at a time, to pad less.
    """
    if together and len(ids) > together:
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        parts = [encode(model, [ids[i] for i in order[at:at + together]], device, frozen) for at in range(0, len(order), together)]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(device)]
    lengths = np.array([len(i) for i in ids])
    mask = np.arange(lengths.max())[None, :] < lengths[:, None]
    table = np.zeros(mask.shape, np.int64)
    table[mask] = np.concatenate([np.asarray(i) for i in ids])
    table, mask = torch.from_numpy(table).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)
    wide = mask[:, None, None, :].bool()
    with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
        states = model.embedded(table)
        for layer in model.encoder.layer[:frozen]:
            states = layer(states, wide)
    for layer in model.encoder.layer[frozen:]:
        states = layer(states, wide)
    weight = mask.unsqueeze(-1).float()
    return torch.nn.functional.normalize((states.float() * weight).sum(1) / weight.sum(1), dim=-1)


@torch.no_grad()
def embed(model, tokenizer, texts, device="cpu", batch=512):
    """The vectors of texts as a numpy array."""
    model.eval()
    ids = [e.ids for e in tokenizer.encode_batch(list(texts))]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = None
    for start in range(0, len(order), batch):
        part = order[start:start + batch]
        with torch.autocast(device, torch.bfloat16, enabled=False):
            vectors = encode(model, [ids[i] for i in part], device).cpu().numpy()
        if out is None:
            out = np.zeros((len(ids), vectors.shape[1]), np.float32)
        out[part] = vectors
    return out
