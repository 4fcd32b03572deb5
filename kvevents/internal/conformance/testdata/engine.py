"""A PUB and a ROUTER on pyzmq, told what to do by lines on standard input.

usage: engine.py ADDRESS connect|bind REPLAY|- TOPICS(0|1) HEARTBEAT_MS
lines: "p TOPIC_HEX SEQ PAYLOAD_HEX" publishes and keeps a batch, "r HEX HEX ..." sends
parts as they are ("-" is an empty one), end of input ends the process.
"""
import sys
import threading

import zmq

address, how, replay, topics, heartbeat = sys.argv[1:6]
context = zmq.Context()
pub = context.socket(zmq.PUB)
pub.set_hwm(100000)
pub.linger = 0
if int(heartbeat):
    pub.setsockopt(zmq.HEARTBEAT_IVL, int(heartbeat))
    pub.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2 * int(heartbeat))
    pub.setsockopt(zmq.HEARTBEAT_TTL, 2 * int(heartbeat))
(pub.connect if how == "connect" else pub.bind)(address)

END = b"\xff" * 8
lock = threading.Lock()
kept = []
router = None


def serve():
    while True:
        try:
            request = router.recv_multipart()
        except zmq.ZMQError:
            return
        if len(request) != 3 or request[1] or len(request[2]) != 8:
            continue
        with lock:
            batches = [m for m in kept if m[1] >= request[2]]
        topic = topics == "1"
        for m in batches:
            router.send_multipart([request[0], b""] + (list(m) if topic else [m[1], m[2]]))
        router.send_multipart([request[0], b""] + ([b""] if topic else []) + [END, b""])


if replay != "-":
    router = context.socket(zmq.ROUTER)
    router.set_hwm(100000)
    router.linger = 0
    router.bind(replay)
    threading.Thread(target=serve, daemon=True).start()

print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "p":
        m = (
            bytes.fromhex(words[1].replace("-", "")),
            int(words[2]).to_bytes(8, "big"),
            bytes.fromhex(words[3].replace("-", "")),
        )
        with lock:
            kept.append(m)
        pub.send_multipart(m)
    else:
        pub.send_multipart([bytes.fromhex(w.replace("-", "")) for w in words[1:]])
