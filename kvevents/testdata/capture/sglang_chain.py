"""Record a random workload on the installed SGLang and what its cache then holds.

usage: python sglang_chain.py OUT.jsonl [SEED [STEPS]]

First line: the setting. Every other line is one step: the prompts inserted, the
tokens evicted, the payload of the batch in hex, the hashes of the radix tree
after the step, and the hit that the tree gives each probe.
"""

import json
import random
import sys

import msgspec
from sglang_engine import PAGE, Cache, batch

path, *rest = sys.argv[1:]
seed, steps = list(map(int, rest)) + [1, 70][len(rest):]
rng = random.Random(seed)
c = Cache()
encode = msgspec.msgpack.Encoder().encode
history = []


def prompt():
    head = []
    if history and rng.random() < 0.8:
        head = rng.choice(history)
        head = head[: rng.randrange(len(head) + 1)]
    return head + [rng.randrange(1, 200000) for _ in range(rng.randrange(4, 20))]


with open(path, "w") as f:

    def line(x):
        f.write(json.dumps(x, separators=(",", ":")) + "\n")

    line({"block_size": PAGE, "seed": seed})
    for step in range(steps):
        ops = []
        for _ in range(rng.randrange(1, 3)):
            if rng.random() < 0.7 or not history:
                p = prompt()
                c.insert(p)
                history.append(p)
                ops.append({"op": "insert", "tokens": p})
            else:
                n = rng.randrange(4, 24)
                c.evict(n)
                ops.append({"op": "evict", "tokens": n})
        if step % 60 == 59:
            c.tree.reset()
            ops.append({"op": "reset"})
        del history[:-20]
        out = {"step": step, "ops": ops}
        events = c.events()
        if events:
            out["payload"] = encode(batch(events)).hex()
        probes = [rng.choice(history) + [1] for _ in range(2)]
        out["probes"] = [{"tokens": p, "hit": c.hit(p)} for p in probes]
        # A probe may split a node of the tree, and some releases then announce
        # it, so what the probes said is kept apart from the step itself.
        events = c.events()
        if events:
            out["payload_of_probes"] = encode(batch(events)).hex()
        out["resident"] = [str(h) for h in c.resident()]
        line(out)
