"""Count what a slow DEALER loses of a full replay of the installed vLLM.

usage: python vllm_replay_loss.py [BATCHES]
"""

import sys
import time

import zmq
from vllm_engine import Engine, Wire, hash_function

n = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
e = Engine(next(a for a in ("sha256_cbor", "builtin") if hash_function(a)))
e.admit(e.request(range(1, 33)))
events = e.events()
w = Wire(base=27000)
for _ in range(n):
    w.publish(events)
w.dealer.close(0)
d = zmq.Context.instance().socket(zmq.DEALER)
d.setsockopt(zmq.RCVHWM, 0)
d.connect("tcp://127.0.0.1:27100")
d.send_multipart([b"", w.warmup.to_bytes(8, "big")])
got, end, slow = [], False, len(sys.argv) > 2
while d.poll(3000):
    m = d.recv_multipart()
    if m[-2] == b"\xff" * 8:
        end = True
        break
    got.append(int.from_bytes(m[-2], "big"))
    if slow and len(got) % 100 == 0:
        time.sleep(0.01)
gaps = sum(b != a + 1 for a, b in zip(got, got[1:]))
print(f"asked {n}, received {len(got)}, interior gaps {gaps}, end marker {end}")
w.close()
