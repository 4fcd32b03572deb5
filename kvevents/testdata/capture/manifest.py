"""Write manifest.json: what each file is, what wrote it, and what it decodes to.

usage: python manifest.py ROOT WHEELS.json VERSIONS.json

WHEELS.json maps each folder name to {package, version, wheel, sha256} of the
wheel as downloaded; VERSIONS.json maps msgspec, pyzmq and torch to theirs.
Whole numbers beyond 2^53 become decimal strings, bytes become "hex:...".
"""

import hashlib
import json
import pathlib
import re
import sys

import msgspec

root = pathlib.Path(sys.argv[1])
wheels = json.loads(pathlib.Path(sys.argv[2]).read_text())
versions = json.loads(pathlib.Path(sys.argv[3]).read_text())


def plain(x):
    if isinstance(x, bytes):
        return "hex:" + x.hex()
    if isinstance(x, list):
        return [plain(i) for i in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, int) and not isinstance(x, bool) and abs(x) > 2**53:
        return str(x)
    return x


CHAIN = {  # arguments after the file name
    "chain-vllm-0.23.0-bytes": "2 70",
    "chain-vllm-0.33.0-two-groups": "3 90 64 8",
    "chain-vllm-0.11.0-two-groups": "3 90 64 8",
}
files = []
for path in sorted(root.rglob("*")):
    name = path.relative_to(root).as_posix()
    if not path.is_file() or path.suffix not in (".msgpack", ".json", ".jsonl") or name == "manifest.json":
        continue
    data = path.read_bytes()
    key = re.search(r"(vllm|sglang)-\d[0-9.]*\d(?:\.?post\d+)?", name).group(0)
    engine = key.split("-")[0]
    entry = {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "from": key}
    env = "PYTHONHASHSEED=0 "
    if path.suffix == ".jsonl":
        if "-bytes" in name:
            env += "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0 "
        entry["command"] = f"{env}python {engine}_chain.py ../{name} {CHAIN.get(path.stem, '')}".strip()
    elif path.suffix == ".json":
        entry["command"] = (
            f"{env}python vllm_replay.py ../{name}"
            if engine == "vllm"
            else f"{env}python sglang_payloads.py ../{key} ../{name}"
        )
    else:
        entry["command"] = (
            f"{env}python vllm_payloads.py ../{key}"
            if engine == "vllm"
            else f"{env}python sglang_payloads.py ../{key} ../replay/{key}.json"
        )
        entry["decoded"] = plain(msgspec.msgpack.decode(data))
    files.append(entry)
used = {f["from"] for f in files}
lines = [json.dumps(f, separators=(",", ":")) for f in files]
head = json.dumps({"tools": versions, "wheels": {k: wheels[k] for k in sorted(used)}}, indent=1)[:-2]
(root / "manifest.json").write_text(head + ',\n "files": [\n' + ",\n".join(lines) + "\n ]\n}\n")
json.loads((root / "manifest.json").read_text())
print(len(files), "files")
