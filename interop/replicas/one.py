"""A server that one replica runs for all: what its clients see when that replica changes."""

import asyncio
import json
import os
import pathlib
import re
import time

from client import Legacy, Modern, Wrong

# A lease of 10 seconds, a look at it each second, and the time that a busy machine takes.
TAKEOVER = 20
MIB = 1024 * 1024
NUMBER = re.compile(r"did [^:]*: (\d+)")


def parent(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^PPid:\s+(\d+)", text, re.MULTILINE).group(1))


def processes(world):
    """The processes of the counter: each with the replica that it belongs to."""
    found, replicas = [], {replica.process.pid: replica for replica in world.replicas}
    for entry in os.listdir("/proc"):
        try:
            argv = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if str(world.folder / "counter.lock").encode() not in argv:
                continue
            pid = int(entry)
            while pid > 1 and pid not in replicas:
                pid = parent(pid)
            found.append(replicas.get(pid))
        except (OSError, ValueError, AttributeError):
            continue
    return found


def owner(world):
    found = processes(world)
    if len(found) != 1 or found[0] is None:
        raise Wrong(f"there are {len(found)} processes of the counter")
    return found[0]


async def connect(replica):
    client = Legacy(replica.port)
    await client.initialize()
    await client.tell({"method": "notifications/initialized"})
    return client


async def core(client, tool, **arguments):
    params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
    return json.dumps(await client.request("tools/call", params))


async def until(what, check):
    end = time.monotonic() + TAKEOVER
    while not await check():
        if time.monotonic() > end:
            raise Wrong(f"never: {what}")
        await asyncio.sleep(0.1)


async def counts(client, effect):
    """Calls the counter, again while it moves. Returns its number."""
    found = None

    async def works():
        nonlocal found
        found = NUMBER.search(str(await client.call("count", {"effect": effect})))
        return found

    await until("the counter counts", works)
    return int(found.group(1))


async def check(world, tally):
    """Each step prints what it showed."""
    clients = {replica: await connect(replica) for replica in world.replicas}
    runs = owner(world)
    numbers = [await counts(client, f"one-{number}") for number, client in enumerate(clients.values())]
    if numbers != list(range(numbers[0], numbers[0] + len(clients))):
        tally.problem(f"the counter has counted {numbers}")
    print(f"one process counts the calls of {len(clients)} replicas: {numbers}")
    other, third = [client for replica, client in clients.items() if replica is not runs][:2]
    await questions(other, [replica for replica in world.replicas if replica is not runs], tally)
    await results(other, tally)
    await operation(world, other, third, tally)
    await death(world, clients, tally)


async def questions(legacy, others, tally):
    """It asks clients of both eras. A modern one gives its answer to a third replica."""
    message = str(await legacy.call("count_ask", {"effect": "one-asked"}, on_message=legacy.answer))
    if "did one-asked" not in message:
        tally.problem(f"a legacy client was asked: {message[:300]}")
    effect = "one-asked-in-a-result"
    result = (await Modern(others[0].port).call("count_ask", {"effect": effect}))["result"]
    answer = {"action": "accept", "content": {"sure": effect}}
    extra = {"inputResponses": {key: answer for key in result.get("inputRequests", {})}}
    extra["requestState"] = result.get("requestState")
    message = str(await Modern(others[1].port).call("count_ask", {"effect": effect}, extra))
    if f"did {effect}" not in message:
        tally.problem(f"a modern client was asked: {result}: {message[:300]}")
    print("it asks clients of both eras at other replicas")


async def results(client, tally):
    """Long results, and one that is too long for another replica."""
    began = time.monotonic()
    text = str(await client.call("count_long", {"effect": "one-long", "length": 2 * MIB}))
    if "did one-long" not in text:
        tally.problem(f"a result of 2 MiB: {text[:300]}")
    text = str(await client.call("count_long", {"effect": "one-longer", "length": 9 * MIB}))
    if "larger than 8 MiB" not in text:
        tally.problem(f"a result of 9 MiB: {text[:300]}")
    print(f"results of 2 and of 9 MiB from another replica: {time.monotonic() - began:.1f} s")


async def operation(world, client, third, tally):
    """The counter is stopped, started and restarted at a replica that does not run it; its log is read there."""
    log = await core(client, "core_mcpserver_logs", name="counter")
    if "the counter starts" not in log:
        tally.problem(f"its log: {log[:300]}")
    before = await counts(client, "one-before")
    said = await core(client, "core_service_restart", name="counter")
    after = await counts(third, "one-after")
    if "Successfully restarted" not in said or after >= before:
        tally.problem(f"it was restarted: {said[:300]}, {before}, {after}")
    said = await core(client, "core_service_stop", name="counter")
    if "Successfully stopped" not in said or processes(world):
        tally.problem(f"it was stopped: {said[:300]}, {len(processes(world))} processes")
    await until("it is stopped everywhere", lambda: stopped(third))
    said = await core(third, "core_service_start", name="counter")
    if "Successfully started" not in said or len(processes(world)) != 1:
        tally.problem(f"it was started: {said[:300]}, {len(processes(world))} processes")
    await counts(client, "one-started")
    print("it is stopped, started and restarted at any replica, and its log is read at any")


async def stopped(client):
    return "stopped" in (await core(client, "core_service_status", name="counter")).lower()


async def death(world, clients, tally):
    """The replica that runs it is killed in the middle of a call of another."""
    runs = owner(world)
    client = next(client for replica, client in clients.items() if replica is not runs)
    seen = asyncio.Event()

    async def on_message(_):
        seen.set()

    arguments = {"effect": "one-cut", "steps": "600", "pause": "0.1"}
    call = asyncio.ensure_future(client.call("count_slow", arguments, on_message=on_message))
    await asyncio.wait_for(seen.wait(), TAKEOVER)
    runs.kill()
    began = time.monotonic()
    message = str(await asyncio.wait_for(call, TAKEOVER))
    cut = time.monotonic() - began
    if "repeat it only if that does no harm" not in message:
        tally.problem(f"a call whose replica was killed: {message[:300]}")
    if await counts(client, "one-again") != 1:
        tally.problem("the new process does not begin at one")
    print(f"its replica is killed: the call ends after {cut:.1f} s, another answers after {time.monotonic() - began:.1f} s")
    if owner(world) is runs:
        tally.problem("a dead replica runs the counter")
    if "one-cut" in world.log.read_text().split():
        tally.problem("a call that was cut was made again")
    runs.start()
