"""Plays conversations of agents through the OpenAI client library, and prints one line of
JSON for each request:

    agents.py [--sessions N] [--turns N] [--first N] [--forever] URL...

With several URLs requests go to them in turn. With --forever a session that has ended is
followed by another, until standard input is closed. Nothing is tried twice.
"""

import argparse
import asyncio
import itertools
import json
import random
import sys
import time

from openai import AsyncOpenAI

WORDS = (
    "the quick brown fox jumps over the lazy dog while another one sleeps you are a careful assistant "
    "and answer in one sentence unless asked for more a block of the cache holds keys and values of "
    "consecutive tokens route the request to the server which has most of the prompt"
).split()


def text(seed: str, words: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


async def ask(client: AsyncOpenAI, url: str, session: int, turn: int, messages: list) -> str:
    line = {"session": session, "turn": turn, "url": url, "begun": time.time()}
    began = time.perf_counter()
    said = ""
    try:
        raw = await client.chat.completions.with_raw_response.create(
            model="tiny", messages=messages, max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
        )
        line["endpoint"] = raw.headers.get("x-warmroute-engine")
        async for chunk in raw.parse():
            if chunk.choices and "ttft" not in line:
                line["ttft"] = time.perf_counter() - began
            for choice in chunk.choices:
                said += choice.delta.content or ""
            if chunk.usage:
                line["prompt"] = chunk.usage.prompt_tokens
                details = chunk.usage.prompt_tokens_details
                line["cached"] = details.cached_tokens if details else None
        if "prompt" not in line:
            line["error"] = "the stream ended without usage"
    except Exception as e:  # whatever the library makes of it is what a user would see
        line["error"] = f"{type(e).__name__}: {e}"
    line["ended"] = time.time()
    print(json.dumps(line), flush=True)
    return said


async def converse(clients: list, turn_of: itertools.count, args, session: int, stop: asyncio.Event) -> None:
    rng = random.Random(session)
    kind = args.first + session % args.kinds
    messages = [{"role": "system", "content": f"agent {kind}: " + text(f"kind {kind}", args.system)}]
    await asyncio.sleep(rng.random() * args.think * 2)
    for turn in range(args.turns):
        if stop.is_set():
            return
        messages.append({"role": "user", "content": text(f"{session} {turn}", args.words)})
        url, client = clients[next(turn_of) % len(clients)]
        said = await ask(client, url, session, turn, messages)
        messages.append({"role": "assistant", "content": said})
        await asyncio.sleep(args.think * (0.5 + rng.random()))


async def lane(clients: list, turn_of: itertools.count, args, first: int, stop: asyncio.Event) -> None:
    session = first
    while True:
        await converse(clients, turn_of, args, session, stop)
        session += args.sessions
        if not args.forever or stop.is_set():
            return


async def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--sessions", type=int, default=12)
    p.add_argument("--turns", type=int, default=6)
    p.add_argument("--first", type=int, default=0, help="number of the first session and kind")
    p.add_argument("--kinds", type=int, default=6)
    p.add_argument("--system", type=int, default=1400, help="words of a system prompt")
    p.add_argument("--words", type=int, default=40, help="words of a turn")
    p.add_argument("--think", type=float, default=0.5, help="seconds between turns")
    p.add_argument("--forever", action="store_true")
    p.add_argument("urls", nargs="+")
    args = p.parse_args()
    stop = asyncio.Event()
    if args.forever:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, lambda: (sys.stdin.read(), loop.call_soon_threadsafe(stop.set)))
    clients = [
        (url, AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)) for url in args.urls
    ]
    turn_of = itertools.count()
    await asyncio.gather(*(lane(clients, turn_of, args, args.first + s, stop) for s in range(args.sessions)))


asyncio.run(main())
