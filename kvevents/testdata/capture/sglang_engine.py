"""Drive the radix cache and the event publisher of an installed SGLang.

The radix cache, the events and the publisher are SGLang's. The allocator of KV
slots is a stand-in with nothing but a device and methods that free nothing.
"""

import inspect
import os
from array import array

os.environ.setdefault("PYTHONHASHSEED", "0")
import sglang_stub  # noqa: F401
import torch
import zmq
from sglang.srt.disaggregation import kv_events as wire
from sglang.srt.mem_cache import radix_cache

PAGE = 4
TS = 1750000000.5


def call(fn, **kw):
    known = inspect.signature(fn).parameters
    return fn(**{k: v for k, v in kw.items() if k in known})


class Slots:
    device = torch.device("cpu")

    def free(self, *_, **__):
        pass

    free_segment = free


class Cache:
    def __init__(self, eagle=False, page=PAGE, **more):
        args = dict(
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=Slots(),
            page_size=page,
            is_eagle=eagle,
            enable_kv_cache_events=True,
            **more,
        )
        if "params" in inspect.signature(radix_cache.RadixCache.__init__).parameters:
            from sglang.srt.mem_cache.cache_init_params import CacheInitParams

            if eagle and "is_eagle" not in inspect.signature(CacheInitParams).parameters:
                raise RuntimeError("no is_eagle")
            args = {"params": call(CacheInitParams, **args)}
        elif eagle and "is_eagle" not in inspect.signature(radix_cache.RadixCache.__init__).parameters:
            raise RuntimeError("no is_eagle")
        self.tree = call(radix_cache.RadixCache, **args)

    def key(self, tokens, extra=None, salt=None):
        cls = getattr(radix_cache, "RadixKey", None)
        if cls is None:
            if extra or salt:
                raise RuntimeError("keys of this release are lists of tokens")
            return list(tokens)
        ann = str(inspect.signature(cls.__init__).parameters["token_ids"].annotation)
        raw = array("q", tokens) if "array" in ann else list(tokens)
        if salt and "cache_salt" not in inspect.signature(cls.__init__).parameters:
            raise RuntimeError("keys of this release have no cache_salt")
        return call(cls, token_ids=raw, extra_key=extra, cache_salt=salt)

    def insert(self, tokens, **kw):
        tokens = list(tokens)
        key, value = self.key(tokens, **kw), torch.arange(len(tokens), dtype=torch.int64)
        if "params" in inspect.signature(self.tree.insert).parameters:
            from sglang.srt.mem_cache.base_prefix_cache import InsertParams

            return self.tree.insert(InsertParams(key=key, value=value))
        return self.tree.insert(key, value)

    def evict(self, n):
        if "params" in inspect.signature(self.tree.evict).parameters:
            from sglang.srt.mem_cache.base_prefix_cache import EvictParams

            return self.tree.evict(EvictParams(num_tokens=n))
        return self.tree.evict(n)

    def events(self):
        return self.tree.take_events()

    def hit(self, tokens):
        """The cached tokens of a prompt, as the radix cache matches it."""
        key = self.key(tokens)
        fn = self.tree.match_prefix
        if "params" in inspect.signature(fn).parameters:
            from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams

            out = fn(MatchPrefixParams(key=key))
        else:
            out = fn(key)
        n = getattr(out, "device_prefix_len", None)
        return len(out[0]) if n is None else int(n)

    def resident(self):
        """The hashes of every node of the tree, as its events write them."""
        from sglang.srt.mem_cache import utils

        signed = getattr(utils, "hash_str_to_int64", None) or radix_cache.hash_str_to_int64
        out, todo = [], list(self.tree.root_node.children.values())
        while todo:
            node = todo.pop()
            todo += node.children.values()
            out += [signed(h) for h in node.hash_value]
        return sorted(out)


class Wire:
    def __init__(self, rank=0, topic="", base=26200):
        ctx = zmq.Context.instance()
        self.sub = ctx.socket(zmq.SUB)
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")
        self.sub.bind(f"tcp://127.0.0.1:{base + rank}")
        self.port = base + 100 + rank
        self.pub = call(
            wire.ZmqEventPublisher,
            attn_dp_rank=rank,
            endpoint=f"tcp://127.0.0.1:{base}",
            replay_endpoint=f"tcp://127.0.0.1:{base + 100}",
            topic=topic,
        )
        self.spent = 0
        for _ in range(40):  # a PUB drops what it sends before the subscription
            self.pub.publish(batch([]))
            self.spent += 1
            if self.sub.poll(100):
                break
        while self.sub.poll(200):
            self.sub.recv_multipart()

    def publish(self, events, rank=None):
        self.pub.publish(batch(events, rank))
        return self.sub.recv_multipart() if self.sub.poll(3000) else None

    def client(self, kind, send):
        s = zmq.Context.instance().socket(kind)
        s.connect(f"tcp://127.0.0.1:{self.port}")
        s.send_multipart(send)
        got = []
        while s.poll(1500):
            got.append([f.hex() for f in s.recv_multipart()])
            if kind == zmq.REQ or (got[-1][-1] == "" and got[-1][-2] == "ff" * 8):
                break
        s.close(0)
        return {"sent": [f.hex() for f in send], "received": got}

    def close(self):
        self.pub.shutdown()
        self.sub.close(0)


def batch(events, rank=None):
    b = wire.KVEventBatch(ts=TS, events=list(events))
    if rank is not None:
        b.attn_dp_rank = rank
    return b
