"""Record the frames of live messages and of replays of the installed vLLM.

usage: python vllm_replay.py OUT.json

The DEALER is the client that receives every reply; the REQ shows what the
usual client receives: the first reply only. Every frame is in hex.
"""

import json
import pathlib
import sys

import zmq
from vllm_engine import Engine, Wire, hash_function


def hexed(frames):
    return [f.hex() for f in frames]


def exchange(topic, base):
    algo = next(a for a in ("sha256_cbor", "builtin") if hash_function(a))
    w = Wire(topic=topic, base=base)
    first = w.warmup  # sequences below were spent on warm up
    e = Engine(algo, blocks=16)
    live = []
    r = e.request(range(1, 9))
    e.admit(r)
    live.append(w.publish(e.events()))
    for t in (9, 10, 11, 12):
        e.decode(r, t)
    live.append(w.publish(e.events()))
    e.free(r)
    e.manager.block_pool.get_new_blocks(14)
    live.append(w.publish(e.events()))
    port = base + 100
    ctx = zmq.Context.instance()

    def client(kind, send, wait=1500):
        s = ctx.socket(kind)
        s.connect(f"tcp://127.0.0.1:{port}")
        s.send_multipart(send)
        got = []
        while s.poll(wait):
            got.append(hexed(s.recv_multipart()))
            if kind == zmq.REQ:
                break
            if got[-1][-1] == "" and got[-1][-2] == "ff" * 8:
                break
        s.close(0)
        return {"sent": hexed(send), "received": got}

    out = {
        "topic": topic,
        "first_seq": first,
        "live": [hexed(f) for f in live],
        "dealer": client(zmq.DEALER, [b"", first.to_bytes(8, "big")]),
        "dealer_from_second": client(zmq.DEALER, [b"", (first + 1).to_bytes(8, "big")]),
        "dealer_past_the_end": client(zmq.DEALER, [b"", (first + 99).to_bytes(8, "big")]),
        "dealer_without_delimiter": client(zmq.DEALER, [first.to_bytes(8, "big")]),
        "req": client(zmq.REQ, [first.to_bytes(8, "big")]),
    }
    w.close()
    return out


pathlib.Path(sys.argv[1]).write_text(
    json.dumps([exchange("", 25700), exchange("kv@10.0.0.7@m", 26000)], indent=1) + "\n"
)
