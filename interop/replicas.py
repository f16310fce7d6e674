#!/usr/bin/env python3
"""Kills replicas of the gateway at random while clients of both eras work through a round-robin balancer.

    replicas.py MUSTER [--seconds 180] [--replicas 5] [--clients 200] [--seed N] [--no-logins]

Every connection of a client goes to the next replica. A backend records each effect by an id that the client chose. A
client repeats a request only if it has no effect, and resumes a stream that was cut. Afterwards every effect that was
confirmed must have happened, none twice, and every session and every login must go on; most effects must have been confirmed,
replicas been killed, and streams resumed. A second server is a process that one replica runs for all: never two at a time, and
what it is said not to have done it has not done. The commands that a call costs in Valkey and the memory of an idle session are
measured before, and have limits. Logins take a third of the time again, and are refreshed meanwhile.

Needs valkey-server or redis-server (interop/install_packages.sh), and the provider of interop/install_oauth.sh.
"""

import argparse
import asyncio
import collections
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "replicas"))

import one  # noqa: E402
from client import Cut, Legacy, Modern, Wrong  # noqa: E402
from world import KEY, STEPS, Balancer, Replica, Valkey, start_backend  # noqa: E402

# Replicas that are never killed at the same time.
SPARE = 2
# The commands in Valkey that a call may cost, and the bytes of an idle session.
MAX_LEGACY_COMMANDS, MAX_MODERN_COMMANDS, MAX_SESSION = 1, 0, 4096
# Commands in the background are measured by themselves, and are not exactly as many the second time.
TOLERANCE = 0.1
# The part of the effects that must be confirmed to their clients.
MIN_CONFIRMED = 0.8
# How long replicas may take to be ready after the last one was killed.
READY_LIMIT = 120
DIED, LOST = "died", "is lost"
# What is said of a call that was not made because its server was not there.
NOT_MADE = ("is moving to another replica", "did not begin it", "status: starting")
HANDLE = re.compile(r"out_[0-9a-f]{24}")
# How long the executions of the last replica that died may take to end elsewhere.
SETTLE = 40


class Tally:
    """What happened, and what should not have."""

    def __init__(self):
        self.counts, self.wrong = collections.Counter(), []
        self.confirmed, self.unknown = set(), set()
        # Effects of calls that were meant to be confirmed.
        self.attempted = set()
        # Workflow executions that were cut.
        self.runs = set()
        # Effects of calls that were not made, by what their clients were told.
        self.refused = set()

    def problem(self, text):
        self.wrong.append(text)
        if len(self.wrong) <= 20:
            print(f"WRONG {text}", flush=True)


class Worker:
    """A client that works until it is told to stop."""

    def __init__(self, number, port, tally, rng, token=None):
        self.number, self.tally, self.random, self.serial = number, tally, rng, 0
        self.client = (Legacy if number % 2 else Modern)(port, token)

    def effect(self):
        self.serial += 1
        return f"{'user' if self.client.token else 'anyone'}-{self.number}-{self.serial}"

    async def run(self, stop):
        if isinstance(self.client, Legacy):
            await self.begin()
        while not stop.is_set():
            task = self.random.choice(self.tasks())
            try:
                await task()
            except Wrong as error:
                self.tally.problem(f"client {self.number}: {error}")
            await asyncio.sleep(self.random.uniform(0.2, 1.0))

    async def begin(self):
        for _ in range(20):
            try:
                await self.client.initialize()
                return await self.client.tell({"method": "notifications/initialized"})
            except Cut:
                await asyncio.sleep(0.1)
        raise Wrong("a session never began")

    def tasks(self):
        if isinstance(self.client, Modern):
            return [self.act] * 4 + [self.suspend] + [self.count] * 2
        tasks = [self.act] * 5 + [self.slow] * 2 + [self.ask, self.ask, self.cancel, self.look]
        tasks += [self.count] * 3 + [self.count_slow]
        # Executions of users who logged in are continued as well, while their logins last.
        return tasks + [self.read_output, self.run_once, self.run_again]

    async def act(self):
        await self.do("act", {})

    async def slow(self):
        await self.do("slow", {"steps": "6", "pause": "0.2"})

    async def ask(self):
        await self.do("ask", {}, on_message=self.client.answer)

    async def count(self):
        """A server that one replica runs for all, which is down while it moves to another."""
        await self.do("count", {})

    async def count_slow(self):
        seen = []

        async def on_message(message):
            seen.append(message.get("method"))

        await self.do("count_slow", {"steps": "6", "pause": "0.2"}, on_message=on_message)
        self.tally.counts["progress of the counter"] += seen.count("notifications/progress")

    async def do(self, tool, arguments, **options):
        """Calls a tool that must not be called twice."""
        effect = self.effect()
        self.attempt(tool, effect)
        self.tally.counts[tool] += 1
        try:
            message = await self.client.call(tool, {"effect": effect, **arguments}, **options)
        except Cut:
            self.tally.counts["cut"] += 1
            self.tally.unknown.add(effect)
            return
        self.judge(tool, effect, message)

    def attempt(self, tool, effect):
        # The counter is often down, and what it did counts all the same.
        if not tool.startswith("count"):
            self.tally.attempted.add(effect)

    def judge(self, tool, effect, message):
        self.tally.counts["resumed"] += bool(message.get("resumed"))
        if "result" in message and not message["result"].get("isError") and f"did {effect}" in str(message["result"]):
            self.tally.confirmed.add(effect)
            self.tally.counts["counted"] += tool.startswith("count")
            return
        if tool.startswith("count"):
            return self.judge_counter(effect, message)
        error = message.get("error", {}).get("message", "")
        if DIED in error or LOST in error:
            self.tally.counts["resumed after a death"] += 1
            self.tally.unknown.add(effect)
            return
        self.tally.unknown.add(effect)
        self.tally.problem(f"client {self.number}: {tool} {effect}: {message}")

    def judge_counter(self, effect, message):
        """A call of the counter that failed: an error either says that it may have been made, or it was not made."""
        text = str(message)
        if "repeat it only if that does no harm" in text or DIED in text or LOST in text:
            self.tally.counts["cut by a move of the counter"] += 1
            self.tally.unknown.add(effect)
        elif any(reason in text for reason in NOT_MADE):
            self.tally.counts["not made while the counter moved"] += 1
            self.tally.refused.add(effect)
        else:
            self.tally.problem(f"client {self.number}: {effect}: {message}")

    async def run_once(self):
        await self.run_workflow("workflow_once", "once")

    async def run_again(self):
        await self.run_workflow("workflow_again", "again")

    async def run_workflow(self, tool, kind):
        """A workflow whose replica may die: another one continues it."""
        run = f"{kind}-{self.effect()}"
        self.tally.counts[tool] += 1
        try:
            message = await self.client.call(tool, {"run": run})
        except Cut:
            self.tally.counts["cut"] += 1
            self.tally.runs.add(run)
            return
        text = str(message)
        if "result" in message and not message["result"].get("isError"):
            self.tally.confirmed.update(f"{run}.{step}" for step in STEPS)
        elif DIED in text or "another replica continues it" in text:
            self.tally.runs.add(run)
        else:
            self.tally.problem(f"client {self.number}: {tool} {run}: {message}")

    async def read_output(self):
        """A long result, whose rest is read at another replica."""
        self.tally.counts["get_output"] += 1
        for _ in range(10):
            try:
                message = await self.client.call("long", {"effect": "none"})
                handle = HANDLE.search(str(message))
                if not handle:
                    raise Wrong(f"no handle in {str(message)[:300]}")
                arguments = {"handle": handle.group(), "grep": "line 4999"}
                read = await self.client.request("tools/call", {"name": "get_output", "arguments": arguments})
                if "line 4999" not in str(read.get("result")):
                    raise Wrong(f"get_output: {str(read)[:300]}")
                return
            except Cut:
                await asyncio.sleep(0.1)
        raise Wrong("get_output: cut ten times")

    async def suspend(self):
        """A tool that asks in the middle of its call: the client repeats the request with its answer."""
        effect = self.effect()
        self.attempt("ask", effect)
        self.tally.counts["ask in a result"] += 1
        extra = None
        for _ in range(10):
            try:
                message = await self.client.call("ask", {"effect": effect}, extra)
            except Cut:
                self.tally.counts["cut"] += 1
                self.tally.unknown.add(effect)
                return
            if "error" in message and "try again" in message["error"].get("message", ""):
                await asyncio.sleep(1)
                continue
            result = message.get("result", {})
            if result.get("resultType") != "input_required":
                break
            answer = {"action": "accept", "content": {"sure": effect}}
            extra = {"inputResponses": {key: answer for key in result["inputRequests"]}}
            extra["requestState"] = result["requestState"]
        self.judge("ask", effect, message)

    async def cancel(self):
        """Cancels a call by a request that lands at another replica."""
        effect, number = self.effect(), self.client.next_id()
        self.tally.counts["cancel"] += 1
        self.tally.unknown.add(effect)
        seen = asyncio.Event()

        async def on_message(_):
            seen.set()

        call = self.client.call("slow", {"effect": effect, "steps": "200", "pause": "0.1"}, on_message=on_message, number=number)
        call = asyncio.ensure_future(call)
        waiting = asyncio.ensure_future(seen.wait())
        await asyncio.wait([call, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=30)
        waiting.cancel()
        if not seen.is_set():
            # Cut before it was known to run: there is nothing to cancel.
            call.cancel()
            return
        self.client.cancelled.add(number)
        await self.client.tell({"method": "notifications/cancelled", "params": {"requestId": number}})
        if call.done():
            # It ended before its cancellation was accepted.
            self.tally.counts["cancelled too late"] += 1
            call.exception()
            return
        try:
            # Before it ends by itself, after twenty seconds.
            async with asyncio.timeout(18):
                message = await call
            if DIED not in message.get("error", {}).get("message", ""):
                self.tally.problem(f"client {self.number}: a cancelled call was answered: {message}")
        except Cut:
            self.tally.counts["cancelled"] += 1
        except TimeoutError:
            self.tally.problem(f"client {self.number}: a call was not cancelled")

    async def look(self):
        """Requests without an effect, which may be repeated."""
        self.tally.counts["look"] += 1
        for _ in range(10):
            try:
                message = await self.client.request("tools/list", {})
                if "result" not in message:
                    raise Wrong(f"tools/list: {message}")
                return
            except Cut:
                await asyncio.sleep(0.1)
        raise Wrong("tools/list: cut ten times")


async def watch(replicas, stop):
    """The health checks of the balancer."""
    while not stop.is_set():
        await asyncio.gather(*(replica.check() for replica in replicas))
        await asyncio.sleep(0.2)


async def kill(replicas, stop, rng, tally):
    while not stop.is_set():
        await asyncio.sleep(rng.uniform(0.5, 2.5))
        ready = [replica for replica in replicas if replica.is_ready]
        if len(ready) > SPARE:
            victim = rng.choice(ready)
            victim.kill()
            tally.counts["kills"] += 1
            await asyncio.sleep(rng.uniform(0, 0.5))
            victim.start()


async def chaos(world, tally, args, seconds, tokens=(None,)):
    stop, rng = asyncio.Event(), random.Random(args.seed)
    workers = [
        Worker(number, world.balancer.port, tally, random.Random(rng.random()), tokens[number % len(tokens)])
        for number in range(args.clients)
    ]
    watching = asyncio.ensure_future(watch(world.replicas, stop))
    working = [asyncio.ensure_future(worker.run(stop)) for worker in workers]
    killing = asyncio.ensure_future(kill(world.replicas, stop, rng, tally))
    await asyncio.sleep(seconds)
    stop.set()
    for done in await asyncio.gather(*working, killing, watching, return_exceptions=True):
        if isinstance(done, BaseException):
            tally.problem(repr(done))
    end = time.monotonic() + READY_LIMIT
    while not all([await replica.check() for replica in world.replicas]):
        if time.monotonic() > end:
            return tally.problem("some replicas are not ready again")
        await asyncio.sleep(0.1)
    for worker in workers:
        if isinstance(worker.client, Legacy):
            try:
                await worker.look()
                tally.counts["sessions that go on"] += 1
            except (Wrong, Cut) as error:
                tally.problem(f"client {worker.number}: its session is lost: {error}")


async def measure(world, tally, sessions):
    """What a call costs in Valkey, and a session in a replica."""
    valkey, port, calls = world.valkey, world.balancer.port, 200
    legacy, modern = Legacy(port), Modern(port)
    await legacy.initialize()

    async def count(work):
        """The commands that are executed meanwhile, and how long it takes."""
        before, began = valkey.commands(), time.monotonic()
        await work
        seconds, after = time.monotonic() - began, valkey.commands()
        return {name: after[name] - before.get(name, 0) for name in after}, seconds

    async def call(client):
        for number in range(calls):
            await client.call("act", {"effect": f"{type(client).__name__}-{number}"})

    async def commands(client, most):
        used, seconds = await count(call(client))
        idle, _ = await count(asyncio.sleep(seconds))
        per_call = {name: (used[name] - idle.get(name, 0)) / calls for name in used}
        shown = {name: round(share, 2) for name, share in per_call.items() if abs(share) > TOLERANCE / 2}
        print(f"Valkey commands per call of a {type(client).__name__} client: {shown or 'none'}")
        if sum(per_call.values()) > most + TOLERANCE:
            tally.problem(f"a call costs more than {most} commands: {shown}")

    await commands(legacy, MAX_LEGACY_COMMANDS)
    await commands(modern, MAX_MODERN_COMMANDS)
    replica = world.replicas[0]

    async def idle(count):
        for _ in range(count):
            await Legacy(replica.port).initialize()

    await idle(500)
    rounds = []
    for _ in range(5):
        before = replica.memory()
        await idle(sessions // 5)
        rounds.append((replica.memory() - before) / (sessions // 5))
    # In one round a table may grow, or the allocator return memory of another time.
    size = statistics.median(rounds)
    print(f"memory of an idle session: {size:.0f} bytes, of {sessions}")
    if size > MAX_SESSION:
        tally.problem(f"an idle session takes {size:.0f} bytes, more than {MAX_SESSION}")


class World:
    """A Valkey, a backend, and replicas behind a balancer."""

    def __init__(self, args, folder):
        self.args, self.folder, self.replicas = args, folder, []
        self.valkey = Valkey(folder)
        self.backend, self.backend_port, self.log = start_backend(folder)
        self.balancer = Balancer(self.replicas)

    async def start(self, count, logins=None):
        make = (self.args.muster, self.folder / f"set{len(list(self.folder.glob('set*')))}")
        for number in range(count):
            replica = Replica(*make, number, self.valkey.port, self.backend_port, self.folder, logins)
            self.replicas.append(replica)
            replica.start()
        end = time.monotonic() + 120
        while not all([await replica.check() for replica in self.replicas]):
            if time.monotonic() > end:
                raise SystemExit((self.replicas[0].folder / "log.txt").read_text())
            await asyncio.sleep(0.1)

    def stop(self):
        for replica in self.replicas:
            if replica.process and replica.process.poll() is None:
                replica.process.kill()
                replica.process.wait()
        self.replicas.clear()

    def end(self):
        self.stop()
        for process in (self.backend, self.valkey.process):
            process.kill()


class Token:
    """An access token that is replaced when its login is refreshed."""

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return self.value


async def with_logins(world, tally, args):
    """The same for users who logged in: no login may be lost."""
    from logins import Logins, refresh

    base = f"http://localhost:{world.balancer.port}"
    logins = await asyncio.to_thread(Logins, world.folder, base, world.valkey.port, KEY)
    try:
        await world.start(args.replicas, logins.settings)
        users = [f"user{number}" for number in range(10)]
        tokens = await asyncio.to_thread(logins.log_in, users)
        access = [Token(tokens[user]["access_token"]) for user in users]
        stop = asyncio.Event()
        refreshing = asyncio.ensure_future(refresh(logins, tokens, dict(zip(users, access)), tally, stop))
        try:
            await chaos(world, tally, args, args.seconds // 3, access)
            await settle(tally, world.log)
        finally:
            stop.set()
            await refreshing
        if not tally.counts["refreshes"]:
            tally.problem("no login was refreshed")
        lost = await asyncio.to_thread(logins.lost, tokens)
        tally.counts["logins that go on"] = len(tokens) - len(lost)
        for user in lost:
            tally.problem(f"the login of {user} is lost")
    finally:
        logins.end()


async def main(args):
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        world = World(args, pathlib.Path(folder))
        try:
            await world.balancer.start()
            await world.start(2)
            await measure(world, tally, args.sessions)
            world.stop()
            await world.start(3)
            try:
                await one.check(world, tally)
            except Wrong as error:
                tally.problem(str(error))
            world.stop()
            await world.start(args.replicas)
            await chaos(world, tally, args, args.seconds)
            await settle(tally, world.log)
            world.stop()
            if not args.no_logins:
                await with_logins(world, tally, args)
        finally:
            world.end()
        happened = collections.Counter(world.log.read_text().split())
        starts = collections.Counter((world.folder / "starts.log").read_text().splitlines())
    return report(tally, happened, starts)


def unfinished(tally, happened):
    """Executions of idempotent steps that began, and did not end."""
    done = {run: sum(f"{run}.{step}" in happened for step in STEPS) for run in tally.runs if run.startswith("again")}
    return [run for run, count in done.items() if 0 < count < len(STEPS)]


async def settle(tally, log):
    end = time.monotonic() + SETTLE
    while unfinished(tally, log.read_text().split()) and time.monotonic() < end:
        await asyncio.sleep(0.5)


def report(tally, happened, starts):
    print(", ".join(f"{name}: {count}" for name, count in sorted(tally.counts.items())))
    doubled = [name for name, count in happened.items() if count > 1 and not name.startswith("again")]
    left = unfinished(tally, happened)
    lost = [effect for effect in tally.confirmed if effect not in happened]
    done = sum(effect in happened for effect in tally.unknown)
    print(f"effects: {len(tally.confirmed)} confirmed, {len(tally.unknown)} unknown to their client, of which {done} happened")
    print(f"workflow executions that were cut: {len(tally.runs)}, of which idempotent ones that never ended: {len(left)}")
    made = [effect for effect in tally.refused if effect in happened]
    counted, beside = tally.counts["counted"], starts["beside another"]
    print(f"the counter: started {starts['alone']} times, {beside} times beside another, {counted} calls confirmed")
    print(f"calls of the counter that were not made: {len(tally.refused)}, of which {len(made)} were")
    print(f"wrong: {len(tally.wrong)}, doubled: {len(doubled)}, lost: {len(lost)}")
    share = len(tally.confirmed & tally.attempted) / max(len(tally.attempted), 1)
    print(f"confirmed of what was meant to be: {share:.0%}")
    checks = [not tally.wrong, not doubled, not lost, not left, tally.counts["kills"] > 0, tally.counts["resumed"] > 0]
    checks.append(share >= MIN_CONFIRMED)
    checks += [not made, not beside, starts["alone"] > 1, counted > 0, tally.counts["progress of the counter"] > 0]
    print(f"{sum(checks)} passed, {len(checks) - sum(checks)} failed")
    return 0 if all(checks) else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("muster")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--replicas", type=int, default=5)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--no-logins", action="store_true", help="skip the part that needs interop/install_oauth.sh")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.randrange(1 << 32)
    print(f"seed: {args.seed}", flush=True)
    return args


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
