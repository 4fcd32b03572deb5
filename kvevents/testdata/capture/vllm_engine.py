"""Drive the KV cache manager and the event publisher of an installed vLLM.

Nothing here imitates vLLM: the hashes, the events, the envelope and the
frames are all made by the installed package. The helpers below only hide the
differences between the signatures of its releases.
"""

import inspect
import os

os.environ.setdefault("PYTHONHASHSEED", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
import zmq
from vllm.distributed.kv_events import KVEventBatch, ZmqEventPublisher
from vllm.sampling_params import SamplingParams
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request

BLOCK = 4
TS = 1750000000.5


def call(fn, **kw):
    """Call fn with the keyword arguments that this release knows."""
    known = inspect.signature(fn).parameters
    return fn(**{k: v for k, v in kw.items() if k in known})


def hash_function(name):
    """A block hash function by its command line name; None if not there."""
    import importlib

    if name == "builtin":
        return hash
    for mod in ("vllm.utils.hashing", "vllm.utils"):
        try:
            f = getattr(importlib.import_module(mod), name, None)
        except ImportError:
            f = None
        if f is not None:
            return f
    return None


def spec(window=None):
    cls = SlidingWindowSpec if window else FullAttentionSpec
    return call(
        cls,
        block_size=BLOCK,
        num_kv_heads=1,
        head_size=8,
        dtype=torch.float32,
        use_mla=False,
        sliding_window=window,
    )


class Engine:
    """A cache manager with `blocks` blocks and one group for each window."""

    def __init__(self, algo, blocks=64, windows=(None,), lookahead=0, retention=None):
        self.lookahead = lookahead
        groups = [KVCacheGroupSpec([f"layer{i}"], spec(w)) for i, w in enumerate(windows)]
        config = call(
            KVCacheConfig,
            num_blocks=blocks,
            tensors={},
            kv_cache_tensors=[],
            kv_cache_groups=groups,
            prefix_cache_retention_interval=retention,
        )
        fn = hash_function(algo)
        if fn is None:
            raise SystemExit(f"this release has no hash function {algo}")
        self.hasher = None
        if hasattr(kv_cache_utils, "init_none_hash"):
            kv_cache_utils.init_none_hash(fn)
        if hasattr(kv_cache_utils, "get_request_block_hasher"):
            self.hasher = call(
                kv_cache_utils.get_request_block_hasher,
                block_size=BLOCK,
                hash_block_size=BLOCK,
                caching_hash_fn=fn,
                num_hash_lookahead_tokens=lookahead,
            )
        self.manager = call(
            KVCacheManager,
            kv_cache_config=config,
            max_model_len=4096,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            enable_caching=True,
            caching_hash_algo=algo,
            enable_kv_cache_events=True,
            use_eagle=bool(lookahead),
            num_hash_lookahead_tokens=lookahead,
        )
        self.count = 0

    def request(self, tokens, lora=None, salt=None, mm=(), embeds=None, session=None, params=None):
        """A request; mm is a list of (identifier, offset, length)."""
        from vllm.lora.request import LoRARequest
        from vllm.multimodal.inputs import PlaceholderRange

        self.count += 1
        places = [PlaceholderRange(offset=o, length=n) for _, o, n in mm]
        features = None
        try:
            from vllm.multimodal.inputs import MultiModalFeatureSpec

            features = [
                call(MultiModalFeatureSpec, data=None, modality="image", identifier=i, mm_position=p)
                for (i, _, _), p in zip(mm, places)
            ]
        except ImportError:
            pass
        return call(
            Request,
            request_id=f"r{self.count}",
            prompt_token_ids=list(tokens),
            sampling_params=params or SamplingParams(max_tokens=64),
            pooling_params=None,
            eos_token_id=None,
            arrival_time=TS,
            multi_modal_inputs=[None] * len(mm) or None,
            multi_modal_kwargs=[None] * len(mm) or None,
            multi_modal_hashes=[i for i, _, _ in mm] or None,
            multi_modal_placeholders=places or None,
            mm_features=features or None,
            prompt_embeds=embeds,
            lora_request=LoRARequest(*lora) if lora else None,
            cache_salt=salt,
            session_id=session,
            block_hasher=self.hasher,
        )

    def hit(self, req):
        """The cached tokens that the manager reports, and the blocks."""
        out = self.manager.get_computed_blocks(req)
        return out[1], out[0]

    def admit(self, req):
        """Schedule the whole prompt as one step; the cached tokens, or None."""
        cached, blocks = self.hit(req)
        new = req.num_tokens - cached
        got = call(
            self.manager.allocate_slots,
            request=req,
            num_new_tokens=new,
            num_new_computed_tokens=cached,
            new_computed_blocks=blocks,
        )
        if got is None:
            return None
        req.num_computed_tokens = cached + new
        return cached

    def decode(self, req, token):
        """Schedule one generated token; False when no block is free."""
        req.append_output_token_ids(token)
        if call(self.manager.allocate_slots, request=req, num_new_tokens=1) is None:
            return False
        req.num_computed_tokens += 1
        return True

    def free(self, req):
        self.manager.free(req)
        if hasattr(self.manager, "free_block_hashes"):
            self.manager.free_block_hashes(req)

    def events(self):
        return list(self.manager.take_events())

    def resident(self):
        """{(group, hash as in an event): physical copies}, from the pool."""
        out = {}
        for block in self.manager.block_pool.blocks:
            h = block.block_hash
            if h is None:
                continue
            group = 0
            if isinstance(h, bytes):
                group = int.from_bytes(h[-4:], "big")
                h = kv_cache_utils.maybe_convert_block_hash(h[:-4])
            else:
                group = getattr(h, "group_id", 0)
                h = getattr(h, "block_hash", h)
                h = getattr(h, "hash_value", h)
            out[group, h] = out.get((group, h), 0) + 1
        return out


def batch(events):
    return KVEventBatch(ts=TS, events=events)


class Wire:
    """A real publisher, and a SUB and DEALER that listen to it on loopback."""

    def __init__(self, rank=0, topic="", base=25557):
        ctx = zmq.Context.instance()
        self.sub = ctx.socket(zmq.SUB)
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")
        self.sub.bind(f"tcp://127.0.0.1:{base + rank}")
        self.pub = call(
            ZmqEventPublisher,
            data_parallel_rank=rank,
            endpoint=f"tcp://127.0.0.1:{base}",
            replay_endpoint=f"tcp://127.0.0.1:{base + 100}",
            topic=topic,
        )
        self.dealer = ctx.socket(zmq.DEALER)
        self.dealer.connect(f"tcp://127.0.0.1:{base + 100 + rank}")
        self.warm()

    def warm(self):
        """Publish until the SUB hears the publisher: a PUB drops what it sends
        before the subscription has reached it."""
        self.warmup = 0
        for _ in range(40):
            self.pub.publish(batch([]))
            self.warmup += 1
            if self.sub.poll(100):
                break
        while self.sub.poll(200):
            self.sub.recv_multipart()

    def publish(self, events):
        """Publish one batch and return the frames that the SUB received."""
        self.pub.publish(batch(events))
        if not self.sub.poll(3000):
            return None
        return self.sub.recv_multipart()

    def replay(self, start):
        """Ask for a replay and return every reply up to the end marker."""
        self.dealer.send_multipart([b"", start.to_bytes(8, "big")])
        out = []
        while self.dealer.poll(2000):
            out.append(self.dealer.recv_multipart())
            if out[-1][-1] == b"" and out[-1][-2] == b"\xff" * 8:
                break
        return out

    def close(self):
        self.pub.shutdown()
        self.sub.close(0)
        self.dealer.close(0)
