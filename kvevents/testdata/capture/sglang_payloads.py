"""Write one payload file for each shape of event that the installed SGLang makes.

usage: python sglang_payloads.py OUTDIR REPLAY.json
"""

import inspect
import json
import os
import pathlib
import sys
import traceback

import msgspec
import zmq
from sglang_engine import PAGE, Cache, Wire, batch, wire

out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)

net = Wire()


def publish(name, events, rank=None):
    events = list(events)
    if not events:
        print("no event:", name)
        return
    frames = net.publish(events, rank)
    if frames is None:
        print("not sent:", name)
        return
    (out / f"{name}.msgpack").write_bytes(frames[2])


def case(fn):
    try:
        fn()
    except Exception as e:
        print(f"skipped {fn.__name__}: {type(e).__name__}: {e}".split("\n")[0])
        if os.environ.get("TRACE"):
            traceback.print_exc()


def stored():
    c = Cache()
    publish("start", c.events())
    c.insert(range(1, 9))
    publish("stored-root", c.events())
    c.insert(list(range(1, 9)) + [128, 255, 256, 65535])
    publish("stored-child", c.events())
    # A prompt that leaves the chain inside a node splits the node.
    c.insert([1, 2, 3, 4, 99, 100, 101, 102])
    publish("stored-split", c.events())
    c.insert(range(200, 200 + 10 * PAGE))
    publish("stored-multi", c.events())
    c.evict(2 * PAGE)
    publish("removed", c.events())
    c.evict(1000)
    publish("removed-all", c.events())
    c.tree.reset()
    publish("cleared", c.events())
    c.insert(range(1, 9))
    c.evict(100)
    c.insert(range(11, 19))
    publish("mixed", c.events())
    if "attn_dp_rank" in wire.KVEventBatch.__struct_fields__:
        c.insert(range(21, 29))
        publish("rank-3", c.events(), rank=3)


def eagle():
    c = Cache(eagle=True)
    c.events()
    c.insert(range(1, 10))
    publish("stored-eagle", c.events())


def salted():
    c = Cache()
    c.events()
    c.insert(range(1, 9), salt="tenant-a")
    publish("stored-salt", c.events())
    c.evict(100)
    publish("removed-salt", c.events())


def salted_dynamo():
    c = Cache(dynamo_kv_event_format=True)
    if not getattr(c.tree, "kv_events", None) or not c.tree.kv_events.dynamo_format:
        raise RuntimeError("no dynamo_kv_event_format")
    c.events()
    c.insert(range(1, 9), salt="tenant-a")
    publish("stored-salt-dynamo", c.events())


def extra_key():
    """The LoRA id of a request is the end of its extra key."""
    c = Cache()
    c.events()
    c.insert(range(1, 9), extra="0123456789abcdef" * 2)
    publish("stored-extra-key", c.events())


def lora():
    from sglang.srt.mem_cache import events

    lora_id = "0123456789abcdef" * 2
    if hasattr(events, "KvEventLoraNames"):
        names = events.KvEventLoraNames()
        req = type("Req", (), {"extra_key": lora_id, "lora_id": lora_id})()
        names.register(req, "adapter-a")
    else:
        names = events.LoRANameTable()
        names.register(lora_id=lora_id, lora_name="adapter-a")
    for name, dynamo in (("stored-lora", False), ("stored-lora-dynamo", True)):
        c = Cache(kv_event_lora_names=names, dynamo_kv_event_format=dynamo)
        c.events()
        c.insert(range(1, 9), extra=lora_id)
        publish(name, c.events())


def host_tier():
    """The events of the host tier, through SGLang's own recorder."""
    c = Cache()
    c.events()
    c.insert(range(1, 9))
    node = next(iter(c.tree.root_node.children.values()))
    rec = getattr(c.tree, "kv_events", None)
    store = rec.record_store if rec else c.tree._record_store_event
    remove = rec.record_remove if rec else c.tree._record_remove_event
    if "medium" not in inspect.signature(store).parameters:
        raise RuntimeError("events of this release name one medium")
    medium = wire.StorageMedium.CPU
    c.events()
    store(node, medium=medium)
    publish("stored-host", c.events())
    remove(node)
    remove(node, medium=medium)
    publish("removed-device-and-host", c.events())


def session():
    c = Cache()
    rec = getattr(c.tree, "kv_events", None)
    if rec is None or "session_id" not in inspect.signature(rec.record_store).parameters:
        raise RuntimeError("no session_id")
    c.insert(range(1, 9))
    c.events()
    rec.record_store(next(iter(c.tree.root_node.children.values())), session_id="session-1")
    publish("stored-session", c.events())


def replay():
    c = Cache()
    got = []
    for topic, base in (("", 26500), ("kv-events", 26800)):
        w = Wire(topic=topic, base=base)
        c.events()
        live = []
        for i in range(3):
            c.insert(range(1000 * (i + 1), 1000 * (i + 1) + 8))
            live.append([f.hex() for f in w.publish(c.events())])
        at = [w.spent.to_bytes(8, "big")]
        got.append(
            {
                "topic": topic,
                "first_seq": w.spent,
                "live": live,
                "dealer": w.client(zmq.DEALER, [b"", *at]),
                "dealer_past_the_end": w.client(zmq.DEALER, [b"", (w.spent + 99).to_bytes(8, "big")]),
                "dealer_without_delimiter": w.client(zmq.DEALER, at),
                "req": w.client(zmq.REQ, at),
            }
        )
        w.close()
    pathlib.Path(sys.argv[2]).write_text(json.dumps(got, indent=1) + "\n")


for fn in (stored, eagle, salted, salted_dynamo, extra_key, lora, host_tier, session, replay):
    case(fn)
net.close()
# The rank as the encoder writes it when nothing filled it in.
(out / "rank-nil-encoder-only.msgpack").write_bytes(
    msgspec.msgpack.Encoder().encode(batch([wire.AllBlocksCleared()]))
)
