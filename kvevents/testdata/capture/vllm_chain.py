"""Record a random workload on the installed vLLM and what its cache then holds.

usage: python vllm_chain.py OUT.jsonl [SEED [STEPS [BLOCKS [WINDOW]]]]

With WINDOW the model has a second cache group with that sliding window.

First line: the setting. Every other line is one step:
  ops      what was done: admit (prompt, LoRA, salt, and the cached tokens that
           the manager reported), decode, free, reset
  payload  the payload of the step's batch in hex, absent when no event came
  resident the blocks of the pool that have a hash after the step, each as
           [group, hash, physical copies]
  probes   prompts with the hit, in tokens, that the manager would give each
"""

import json
import random
import sys

import msgspec
from vllm_engine import BLOCK, Engine, batch, hash_function

path, *rest = sys.argv[1:]
seed, steps, blocks, window = list(map(int, rest)) + [1, 140, 40, 0][len(rest):]
windows = (None, window) if window else (None,)
rng = random.Random(seed)
algo = next(a for a in ("sha256_cbor", "builtin") if hash_function(a))
e = Engine(algo, blocks=blocks, windows=windows)
encode = msgspec.msgpack.Encoder().encode
running, history = [], []
lora_ok = True


def prompt():
    """Often the start of an older prompt, at any length, with a fresh tail. At
    times an older prompt cut at a block, which makes second copies of a block."""
    if history and rng.random() < 0.25:
        head = rng.choice(history)
        head = head[: len(head) // BLOCK * BLOCK]
        if head:
            return head
    head = []
    if history and rng.random() < 0.8:
        head = rng.choice(history)
        head = head[: rng.randrange(len(head) + 1)]
    return head + [rng.randrange(1, 200000) for _ in range(rng.randrange(0 if head else 1, 14))]


def variant():
    x = rng.random()
    if lora_ok and x < 0.1:
        name = rng.choice(["adapter-a", "adapter-b"])
        return {"lora": (name, 7 + ord(name[-1]), "/adapters/" + name)}
    if x < 0.2:
        return {"salt": rng.choice(["tenant-a", "tenant-b"])}
    return {}


def admit(tokens, kw):
    r = e.request(tokens, **kw)
    cached = e.admit(r)
    op = {"op": "admit", "request": r.request_id, "tokens": tokens, "cached": cached}
    if "lora" in kw:
        op["lora"] = list(kw["lora"][:2])
    if "salt" in kw:
        op["salt"] = kw["salt"]
    if cached is None:
        op["op"] = "refused"
        e.free(r)
    else:
        running.append(r)
        if not kw:
            history.append(tokens)
    return op


try:
    probe = Engine(algo)
    probe.admit(probe.request(range(8), lora=("a", 1, "/a")))
except AttributeError:
    lora_ok = False  # the releases in which an event of a LoRA request raises


def hash_text(h):
    return "hex:" + h.hex() if isinstance(h, bytes) else str(h)


with open(path, "w") as f:

    def line(x):
        f.write(json.dumps(x, separators=(",", ":")) + "\n")

    line({"block_size": BLOCK, "blocks": blocks, "hash": algo, "hash_seed": "0", "seed": seed,
          "windows": [w or 0 for w in windows]})
    for step in range(steps):
        ops = []
        for _ in range(rng.randrange(1, 4)):
            x = rng.random()
            if x < 0.4 or not running:
                ops.append(admit(prompt(), variant()))
            elif x < 0.75:
                r = rng.choice(running)
                token = rng.randrange(1, 200000)
                if e.decode(r, token):
                    ops.append({"op": "decode", "request": r.request_id, "token": token})
                    continue
                running.remove(r)
                e.free(r)
                ops.append({"op": "free", "request": r.request_id})
            else:
                r = running.pop(rng.randrange(len(running)))
                e.free(r)
                if not r.lora_request and not r.cache_salt:
                    history.append(list(r.all_token_ids))
                ops.append({"op": "free", "request": r.request_id})
        if step % 60 == 59:
            while running:
                r = running.pop()
                e.free(r)
                ops.append({"op": "free", "request": r.request_id})
            e.manager.reset_prefix_cache()
            ops.append({"op": "reset"})
        del history[:-20]
        out = {"step": step, "ops": ops}
        events = e.events()
        if events:
            out["payload"] = encode(batch(events)).hex()
        out["resident"] = sorted([g, hash_text(h), n] for (g, h), n in e.resident().items())
        probes = [rng.choice(history) + [1] for _ in range(2) if history]
        out["probes"] = [{"tokens": p, "hit": e.hit(e.request(p))[0]} for p in probes]
        line(out)
