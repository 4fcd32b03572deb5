"""Events of vLLM's CPU offload: its own manager, and its own translation.

Before 0.24 the translation is a method of the connector's scheduler that needs
only the manager, so the method is run on an otherwise empty instance.
"""

import importlib
import inspect
from collections import namedtuple

from vllm_engine import BLOCK, call, spec

BASE = "vllm.distributed.kv_transfer.kv_connector.v1."


def find(name, *modules):
    for m in modules:
        try:
            return getattr(importlib.import_module(m), name)
        except (ImportError, AttributeError):
            pass
    return None


OFF = ["vllm.v1.kv_offload.base", "vllm.v1.kv_offload.abstract"]
Tracker = find("OffloadingEventsTracker", BASE + "offloading.events")
KVEventsConfig = find("OffloadingKVEventsConfig", *OFF)
Key = find("make_offload_key", *OFF)
ReqContext = find("ReqContext", *OFF)
Event = find("OffloadingEvent", *OFF)
Medium = find("Medium", *OFF)
Locality = find("Locality", *OFF)


def new_manager(capacity):
    m = find("CPUOffloadingManager", "vllm.v1.kv_offload.cpu.manager")
    if m is not None:
        return call(m, block_size=BLOCK, num_blocks=capacity, num_chunks=capacity, enable_events=True)
    lru = find("LRUOffloadingManager", "vllm.v1.kv_offload.lru_manager")
    backend = find("CPUBackend", "vllm.v1.kv_offload.backends.cpu")
    if lru is None:
        raise RuntimeError("no CPU offload manager")
    return lru(backend(block_size=BLOCK, num_blocks=capacity), enable_events=True)


def store(manager, keys):
    ctx = call(ReqContext, req_id="r") if ReqContext else None
    if hasattr(manager, "on_new_request"):
        manager.on_new_request(ctx)
    for step in (manager.prepare_store, manager.complete_store):
        args = [keys]
        if "req_context" in inspect.signature(step).parameters:
            args.append(ctx)
        if step(*args) is None and step is manager.prepare_store:
            raise RuntimeError("store refused")


def translate(raw, tracker=None):
    raw = list(raw)
    if Tracker is not None:
        tracker = tracker or Tracker(KVEventsConfig(True, False))
        return list(tracker.take_events(raw))
    cls = find("OffloadingConnectorScheduler", BASE + "offloading.scheduler", BASE + "offloading_connector")
    s = cls.__new__(cls)
    s.manager = namedtuple("Source", "take_events")(lambda: raw)
    return list(s.take_events())


def keys_of(req, group=0, step=1):
    hashes = req.block_hashes[step - 1 :: step]
    return [Key(h, group) for h in hashes] if Key else list(hashes)


def group_config(chunk):
    cls = find("GroupOffloadConfig", BASE + "offloading.scheduler")
    kind = find("get_offloading_event_group_spec", BASE + "offloading.events")
    group = find("KVCacheGroupSpec", "vllm.v1.kv_cache_interface")(["layer0"], spec())
    return call(
        cls,
        group_idx=0,
        gpu_block_size=BLOCK,
        offloaded_block_size=BLOCK * chunk,
        hash_block_size_factor=chunk,
        tokens_per_block=BLOCK,
        tokens_per_chunk=BLOCK * chunk,
        hashes_per_chunk=chunk,
        kv_event_group_spec=kind(group),
        sliding_window_size_in_blocks=None,
        sliding_window_size_in_chunks=None,
        kv_cache_spec=group.kv_cache_spec,
        manager_cls=None,
    )


def capture(publish, Engine, algo):
    if not hasattr(Engine(algo).request(range(1, 9)), "block_hashes"):
        raise RuntimeError("requests of this release hold no hashes")
    e = Engine(algo)
    a, b = e.request(range(1, 1 + 3 * BLOCK)), e.request(range(101, 101 + 2 * BLOCK))
    m = new_manager(3)
    store(m, keys_of(a))
    publish("offload-store-cpu", translate(m.take_events()))
    store(m, keys_of(b))
    both = translate(m.take_events())
    publish("offload-removed-cpu", [x for x in both if type(x).__name__ == "BlockRemoved"])
    publish("offload-evict-and-store-cpu", both)

    if Tracker is not None:
        # Chunks of two blocks, salted, with the events that describe themselves.
        tracker = Tracker(KVEventsConfig(True, True))
        r = e.request(range(1, 1 + 4 * BLOCK), salt="tenant-a")
        keys = keys_of(r, step=2)
        for i, k in enumerate(keys):
            tracker.record_store(r, group_config(2), i, k)
        m = new_manager(2)
        store(m, keys)
        publish("offload-described-cpu", translate(m.take_events(), tracker))
        other = e.request(range(101, 101 + 2 * BLOCK))
        okeys = keys_of(other, step=2)
        tracker.record_store(other, group_config(2), 0, okeys[0])
        store(m, okeys)
        publish("offload-described-evict-cpu", translate(m.take_events(), tracker))

    if Locality is not None:
        # The raw event of a secondary tier is made here; vLLM translates it.
        fields = {"keys": keys_of(a), "medium": Medium.STORAGE if Medium else "FS"}
        for name, more in (
            ("offload-storage-local", {"locality": Locality.LOCAL}),
            ("offload-storage-remote", {"locality": Locality.REMOTE}),
            ("offload-storage-owned", {"ownership": "kvcr"}),
        ):
            try:
                raw = [Event(removed=False, **fields, **more), Event(removed=True, **fields, **more)]
            except TypeError:
                continue
            publish(name, translate(raw))
