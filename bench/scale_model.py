#!/usr/bin/env python3
"""A load model of replicas of the gateway: from the measured cost of sessions and calls to what many of them need.

    scale_model.py [--measured FILE.json] [--check | --write]

Prints the tables of docs/scale.md; `--write` puts them there. `--check` predicts the larger measured points from the smaller ones and fails when a
prediction is off by more than a tenth, or when docs/scale.md has other tables.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = HERE / "scale.json"
PAGE = HERE.parent / "docs/scale.md"
TOLERANCE = 0.10
KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = (10**4, 10**5, 10**6)


@dataclasses.dataclass(frozen=True)
class Workload:
    """What agents do, on average."""

    # Clients of the older protocol; the others have no session.
    legacy: float = 0.5
    # Legacy clients that keep a stream open.
    streaming: float = 0.5
    # Clients with a connection at any moment, for calls.
    connected: float = 0.5
    calls_per_minute: float = 2.0
    # The busiest minute against the average.
    peak: float = 3.0
    # Calls to servers behind the gateway; the others are searches and lists.
    behind: float = 0.7


@dataclasses.dataclass(frozen=True)
class Replica:
    """What one replica has, as the chart sets it."""

    memory: int = 512 * MIB
    cores: float = 2.0
    # How far it is filled, so that the others can take over its load.
    fill: float = 0.7
    # The limits of the program: `max_sessions` and `max_connections`.
    sessions: int = 10_000
    connections: int = 16_384


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a gateway costs, from measurements."""

    base: float
    session: float
    connection: float
    start_us: float
    call_us: dict
    idle_us_per_session: float
    idle_us_per_stream: float
    valkey_us: float

    @classmethod
    def of(cls, measured):
        sessions, streams = measured["sessions"], measured["streams"]
        base, session = line(sessions["points"], "sessions")
        _, stream = line(streams["points"], "streams")
        return cls(
            base=base, session=session, connection=stream - session, start_us=sessions["start_cpu_us"],
            call_us={name: call["cpu_us"] for name, call in measured["calls"].items()},
            idle_us_per_session=sessions["idle_cpu_us_per_second"], idle_us_per_stream=streams["idle_cpu_us_per_second"],
            valkey_us=max(measured["valkey"].values()),
        )

    def memory(self, sessions, connections):
        """Bytes of one replica."""
        return self.base + sessions * self.session + connections * self.connection

    def call(self, workload):
        """µs of CPU time of an average call."""
        def era(name):
            return workload.behind * self.call_us[f"{name}_behind"] + (1 - workload.behind) * self.call_us[f"{name}_own"]
        return workload.legacy * era("legacy") + (1 - workload.legacy) * era("modern")


def line(points, key):
    """Intercept and slope of the straight line that fits the points best."""
    count = len(points)
    mean_x = sum(p[key] for p in points) / count
    mean_y = sum(p["bytes"] for p in points) / count
    slope = sum((p[key] - mean_x) * (p["bytes"] - mean_y) for p in points) / sum((p[key] - mean_x) ** 2 for p in points)
    return mean_y - slope * mean_x, slope


def predictions(measured):
    """The larger half of the points: what, predicted from the smaller half, measured."""
    for part, key in (("sessions", "sessions"), ("streams", "streams")):
        points = measured[part]["points"]
        half = (len(points) + 1) // 2
        base, slope = line(points[:half], key)
        for point in points[half:]:
            yield f"{point[key]:,} {key}", base + slope * point[key], point["bytes"]


def needs(clients, costs, workload, replica):
    """What this many clients need: by resource, and the replicas that each resource asks for."""
    sessions = clients * workload.legacy
    streams = sessions * workload.streaming
    connections = streams + clients * workload.connected
    calls = clients * workload.calls_per_minute / 60 * workload.peak
    idle = sessions * costs.idle_us_per_session + streams * costs.idle_us_per_stream
    cores = (calls * costs.call(workload) + idle) / 1e6
    memory = sessions * costs.session + connections * costs.connection
    room = replica.memory * replica.fill - costs.base
    by = {
        "sessions": sessions / (replica.sessions * replica.fill),
        "connections": connections / (replica.connections * replica.fill),
        "CPU": cores / (replica.cores * replica.fill),
        "memory": memory / room,
    }
    return {
        "clients": clients, "sessions": sessions, "connections": connections, "calls": calls, "cores": cores,
        "memory": memory, "by": by, "replicas": max(2, math.ceil(max(by.values()))), "first": max(by, key=by.get),
        # A call of a legacy client asks for its session once; a modern one asks for nothing.
        "valkey": calls * workload.legacy,
        "valkey_core": calls * workload.legacy * costs.valkey_us / 1e6,
    }


def tables(measured):
    costs, workload, replica = Costs.of(measured), Workload(), Replica()
    lines = ["| cost | measured |", "|---|--:|",
             f"| a gateway that does nothing | {costs.base / MIB:.1f} MiB |",
             f"| an idle session | {costs.session / KIB:.1f} KiB |",
             f"| a connection with an open stream | {costs.connection / KIB:.1f} KiB |",
             f"| the start of a session, CPU | {costs.start_us:.0f} µs |",
             f"| an idle session, CPU | {costs.idle_us_per_session:.2f} µs/s |",
             f"| an open stream, CPU | {costs.idle_us_per_stream:.2f} µs/s |"]
    names = {"own": "to a tool of the gateway", "behind": "to a server behind it, by stdio"}
    for era in ("legacy", "modern"):
        lines += [f"| a {era} call {text}, CPU | {costs.call_us[f'{era}_{what}']:.0f} µs |" for what, text in names.items()]
    lines += [f"| a command of Valkey, CPU of its one thread | {costs.valkey_us:.1f} µs |"]
    lines += ["", "| clients | sessions | connections | calls/s at peak | CPU, cores | memory | Valkey, commands/s | its thread | replicas | decided by |",
              "|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"]
    for clients in SIZES:
        n = needs(clients, costs, workload, replica)
        memory = n["memory"] + n["replicas"] * costs.base
        size = f"{memory / GIB:.1f} GiB" if memory >= GIB else f"{memory / MIB:.0f} MiB"
        lines.append(f"| {clients:,} | {n['sessions']:,.0f} | {n['connections']:,.0f} | {n['calls']:,.0f} | {n['cores']:.1f} | "
                     f"{size} | {n['valkey']:,.0f} | {n['valkey_core']:.0%} | {n['replicas']} | {n['first']} |")
    return "\n".join(lines)


def page(measured):
    """docs/scale.md with these tables."""
    before, rest = PAGE.read_text().split("<!-- made: scale -->", 1)
    return f"{before}<!-- made: scale -->\n{tables(measured)}\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=pathlib.Path, default=MEASURED)
    parser.add_argument("--check", action="store_true", help="compare with the measured points and with docs/scale.md")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/scale.md")
    args = parser.parse_args()
    measured = json.loads(args.measured.read_text())
    wanted = page(measured)
    if args.write:
        PAGE.write_text(wanted)
        return 0
    if not args.check:
        print(tables(measured))
        return 0
    failed = passed = 0
    for what, predicted, found in predictions(measured):
        off = predicted / found - 1
        good = abs(off) <= TOLERANCE
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok   ' if good else 'FAIL '} {what}: {predicted / MIB:.1f} MiB predicted, {found / MIB:.1f} measured ({off:+.1%})")
    good = wanted == PAGE.read_text()
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok   ' if good else 'FAIL '} docs/scale.md has the tables that this program prints")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
