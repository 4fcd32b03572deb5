"""Write one payload file for each shape of event that the installed vLLM makes.

usage: python vllm_payloads.py OUTDIR
"""

import inspect
import os
import pathlib
import sys
import traceback

import msgspec
import torch
from vllm_engine import (
    BLOCK,
    Engine,
    KVCacheConfig,
    KVCacheManager,
    Request,
    Wire,
    ZmqEventPublisher,
    batch,
    hash_function,
    kv_cache_utils,
)

out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
algo = next(a for a in ("sha256_cbor", "builtin") if hash_function(a))
wire = Wire()


def save(name, payload):
    (out / f"{name}.msgpack").write_bytes(payload)


def publish(name, events, w=wire):
    events = list(events)
    if not events:
        print("no event:", name)
        return
    frames = w.publish(events)
    if frames is None:
        print("not sent:", name)
        return
    save(name, frames[2])


def case(fn):
    """Run one case. A release that lacks what the case needs skips it."""
    try:
        fn()
    except Exception as e:
        print(f"skipped {fn.__name__}: {type(e).__name__}: {e}".split("\n")[0])
        if os.environ.get("TRACE"):
            traceback.print_exc()


def stored():
    e = Engine(algo)
    r = e.request([1, 2, 3, 4, 5, 6])
    e.admit(r)
    publish("stored-root", e.events())
    for t in (7, 8, 9):
        e.decode(r, t)
    publish("stored-child", e.events())
    # A second prompt continues a cached prefix: the parent comes from the hit.
    e.admit(e.request([1, 2, 3, 4, 5, 6, 7, 8, 128, 255, 256, 65535, 65536, 151655, 300, 301]))
    publish("stored-after-hit", e.events())
    # An aligned prompt that is cached whole recomputes its last block.
    e.admit(e.request([1, 2, 3, 4, 5, 6, 7, 8]))
    publish("stored-second-copy", e.events())


def multi():
    e = Engine(algo)
    e.admit(e.request(range(100, 100 + 20 * BLOCK)))
    publish("stored-multi", e.events())


def lora():
    e = Engine(algo)
    e.admit(e.request(range(1, 9), lora=("adapter-a", 7, "/adapters/a")))
    publish("stored-lora", e.events())


def salt():
    e = Engine(algo)
    e.admit(e.request(range(1, 9), salt="tenant-a"))
    publish("stored-salt", e.events())


def multimodal():
    e = Engine(algo)
    # The first item begins inside block 0 and ends in block 2, so block 1 and
    # block 2 see a negative offset; the second item shares block 2.
    e.admit(e.request([1, 2] + [151655] * 9 + [3], mm=[("6d" * 32, 2, 7), ("ab" * 32, 9, 2)]))
    publish("stored-multimodal", e.events())


def extras():
    e = Engine(algo)
    embeds = torch.arange(8 * 2, dtype=torch.float32).reshape(8, 2)
    e.admit(
        e.request(
            [1, 2, 151655, 151655, 151655, 5, 6, 7],
            lora=("adapter-a", 7, "/adapters/a"),
            salt="tenant-a",
            mm=[("6d" * 32, 2, 3)],
            embeds=embeds,
        )
    )
    publish("stored-extra-keys", e.events())


def needs(fn, parameter):
    if parameter not in inspect.signature(fn).parameters:
        raise RuntimeError(f"no {parameter}")


def session():
    needs(Request, "session_id")
    e = Engine(algo)
    e.admit(e.request(range(1, 9), session="session-1"))
    publish("stored-session", e.events())


def lookahead():
    needs(KVCacheManager, "num_hash_lookahead_tokens")
    e = Engine(algo, lookahead=1)
    e.admit(e.request(range(1, 11)))
    publish("stored-lookahead", e.events())


def removed():
    e = Engine(algo, blocks=8)
    r = e.request(range(1, 25))
    e.admit(r)
    e.free(r)
    e.events()
    blocks = e.manager.block_pool.get_new_blocks(3)
    publish("removed-gpu", e.events())
    e.manager.block_pool.free_blocks(blocks)
    e.manager.reset_prefix_cache()
    publish("cleared", e.events())


def copies():
    """The same aligned prompt five times: five physical copies of its last
    block, each announced and each removed by an event of its own."""
    e = Engine(algo, blocks=16)
    rs = [e.request(range(1, 9)) for _ in range(5)]
    for r in rs:
        e.admit(r)
    publish("stored-five-copies", e.events())
    for r in rs:
        e.free(r)
    e.manager.block_pool.get_new_blocks(15)
    publish("removed-five-copies", e.events())


def mixed():
    e = Engine(algo, blocks=8)
    a = e.request(range(1, 25))
    e.admit(a)
    e.free(a)
    b = e.request(range(101, 121))
    e.admit(b)
    e.free(b)
    e.manager.reset_prefix_cache()
    e.admit(e.request(range(201, 209)))
    publish("mixed", e.events())


def report_full():
    e = Engine(algo)
    e.admit(e.request(range(1, 13)))
    e.events()
    r = e.request(list(range(1, 13)) + [77])
    if not hasattr(r, "kv_cache_report_mode"):
        raise RuntimeError("no kv_cache_report_mode")
    r.kv_cache_report_mode = "full"
    e.admit(r)
    publish("stored-report-full", e.events())


def digests():
    """The raw digests: VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0."""
    if not hasattr(kv_cache_utils, "maybe_convert_block_hash"):
        raise RuntimeError("hashes are ints in this release")
    os.environ["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] = "0"
    try:
        for a in ("sha256_cbor", "sha256", "xxhash_cbor", "xxhash"):
            if not hash_function(a):
                continue
            try:
                e = Engine(a, blocks=8)
                r = e.request(range(1, 13))
                e.admit(r)
            except Exception as x:
                print(f"skipped digests {a}: {x}")
                continue
            publish(f"stored-bytes-{a}", e.events())
            e.free(r)
            e.manager.block_pool.get_new_blocks(7)
            publish(f"removed-bytes-{a}", e.events())
    finally:
        os.environ["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] = "1"


def hybrid():
    """A full attention group and a sliding window group over one pool."""
    e = Engine(algo, blocks=64, windows=(None, 2 * BLOCK))
    r = e.request(range(1, 25))
    e.admit(r)
    publish("stored-two-groups", e.events())
    for t in range(30, 40):
        e.decode(r, t)
    publish("stored-two-groups-decode", e.events())
    e.free(r)
    e.manager.block_pool.get_new_blocks(60)
    publish("removed-two-groups", e.events())


def sparse():
    """A sliding window group that keeps only some of its blocks: fewer hashes
    than the tokens would fill."""
    needs(KVCacheConfig, "prefix_cache_retention_interval")
    e = Engine(algo, blocks=64, windows=(None, 2 * BLOCK), retention=8 * BLOCK)
    e.admit(e.request(range(1, 1 + 20 * BLOCK)))
    publish("stored-sparse-group", e.events())


def offload():
    """What the CPU offload connector says, from its own manager and code."""
    from vllm_offload import capture

    capture(lambda name, events: publish(name, events), Engine, algo)


def ranks():
    e = Engine(algo)
    e.admit(e.request(range(1, 9)))
    events = e.events()
    if "data_parallel_rank" in inspect.signature(ZmqEventPublisher).parameters:
        w = Wire(rank=3, base=25600)
        publish("rank-3", events, w)
        w.close()
    # The publisher always fills the rank, so nil exists only before it does.
    save("rank-nil-encoder-only", msgspec.msgpack.Encoder().encode(batch(events)))
    e = Engine(algo)
    save("empty-encoder-only", msgspec.msgpack.Encoder().encode(batch([])))


for fn in (stored, multi, lora, salt, multimodal, extras, session, lookahead, removed, copies,
           mixed, report_full, digests, hybrid, sparse, offload, ranks):
    case(fn)
wire.close()
