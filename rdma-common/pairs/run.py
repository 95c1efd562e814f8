# SPDX-License-Identifier: MIT
"""A run: start a shell on each host, give it the plan, collect the results."""
import dataclasses
import json
import math
import pathlib
import signal
import time

import rounds
from console import duration
from paths import Paths, Session
from status import Failure
from streams import Streams, plain
from verdict import Verdict

# The command that starts a shell. It must not ask for a password.
SSH = ["ssh", "-o", "BatchMode=yes"]
# Seconds between two looks at signals and at the progress.
TICK = 0.5
# A host may take this number of times --timeout to start, and to answer after the last round.
START_TIMEOUTS = 6
# Seconds for which the hosts may end after a signal, before their commands are killed.
HURRY = 2
# The maximum length of a number in a line from a host: milliseconds have 13 digits.
MOST_DIGITS = 15
# Seconds of a round besides --duration, for the start and the end of a session.
SPARE = 1
# A clock is reported as wrong from this number of seconds on. Smaller differences are corrected, too.
WRONG_CLOCK = 1


class Interrupted(Exception):
    """A signal has ended the run."""


class Tally:
    """The numbers for the progress. A histogram gives the median to 2 %."""

    def __init__(self):
        self.failed, self.good, self.buckets = 0, 0, {}

    def count(self, rate, reason):
        """Count a result."""
        if reason:
            self.failed += 1
        else:
            self.good += 1
            bucket = int(math.log(rate) * 50)
            self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def slow(self):
        """Return the number of results that are at least 10 % below the median."""
        below, slow = 0, 0
        for bucket in sorted(self.buckets):
            below += self.buckets[bucket]
            if below * 2 >= self.good:
                return sum(count for other, count in self.buckets.items() if other < bucket - 5)
        return slow


class Run:
    """The hosts by their numbers: `ports` has those that take part, `absent` the reasons of the others."""

    def __init__(self, options, hosts, console):
        self.options, self.hosts, self.console = options, hosts, console
        self.numbers = {host.name: number for number, host in enumerate(hosts)}
        self.rails = len(hosts[0].addresses)
        self.rounds = min(options.rounds, rounds.circle_length(len(hosts)))
        self.slot, self.limit = options.duration + SPARE, START_TIMEOUTS * options.timeout
        self.streams, self.signal = Streams(), 0
        self.ports, self.absent, self.late = {}, {}, {}
        self.pending, self.pinged, self.slowest, self.wrong = set(), 0, 0, {}
        self.paths, self.tally, self.again = Paths(), Tally(), {}
        self.seen = bytearray((self.rounds + rounds.AGAIN) * len(hosts) * self.rails)
        self.handlers = {b"hello": self.hello, b"gone": self.gone, b"clock": self.clock, b"late": self.skip, b"done": self.done,
                         b"result": self.result}

    # ---- the lines from the hosts ----

    def handle(self, stream, line):
        """Handle a line. Ignore one that host.sh did not print, or that is about a host of another stream."""
        head, _, text = line.partition(b"\t")
        kind, *words = head.split()[:4] or [b""]
        name = words[0].decode(errors="replace") if words else ""
        if kind in self.handlers and name in stream.names:
            try:
                self.handlers[kind](self.numbers[name], [int(word[:MOST_DIGITS]) for word in words[1:]], text)
            except (ValueError, IndexError, AttributeError, RecursionError):
                pass
        elif line.strip():
            stream.last = plain(line)

    def hello(self, host, _, text):
        """The server on a host listens."""
        port = json.loads(text).get("port")
        if host not in self.absent and type(port) is int and 0 < port < 65536:
            self.ports[host] = port
            self.pending.discard(host)

    def gone(self, host, _, text):
        """The server on a host has ended."""
        self.leave(host, plain(text) or "rdma-server has ended without a message")

    def leave(self, host, reason):
        """A host takes no part, or no longer."""
        self.pending.discard(host)
        if host not in self.absent:
            self.absent[host] = reason
            self.console.record("host", name=self.hosts[host].name, error=reason)

    def clock(self, host, numbers, _):
        """A host answers the ping with its time. The time at which it read its clock is between that of the ping and now."""
        now = milliseconds()
        self.wrong[host] = max(numbers[0] - now, 0) + min(numbers[0] - self.pinged, 0)
        self.pending.discard(host)

    def skip(self, host, numbers, _):
        """A host was late, and has skipped a round."""
        number, milliseconds_late = numbers
        if self.partner(host, number) is not None:
            self.late[host, number] = (f"{self.hosts[host].name} skipped the round, because it was "
                                       f"{milliseconds_late / 1000:.1f} s late")

    def done(self, host, _, __):
        """A host has finished its rounds."""
        self.pending.discard(host)

    def result(self, host, numbers, text):
        """Take the result of a session, unless it is not in the plan, or not the first one."""
        number, rail = numbers
        server = self.partner(host, number)
        if server is None or not 1 <= rail <= self.rails or self.was_seen(host, number, rail):
            return
        self.keep(host, server, number, rail, Session(text))

    def keep(self, host, server, number, rail, session):
        """Keep a result, and print its record."""
        look = 1 if number < self.rounds else 2
        (self.paths.add if look == 1 else self.paths.look_again)(host, server, rail, session.rate, session.reason)
        self.tally.count(session.rate, session.reason)
        self.console.record("path", client=self.hosts[host].name, server=self.hosts[server].name, rail=rail, round=number + 1,
                            look=look, bits_per_second=session.rate or None, status=session.status, error=session.reason or None,
                            error_counters=session.counters)

    def was_seen(self, host, number, rail):
        """Return true if this session has a result. From now on it has one."""
        index = (number * len(self.hosts) + host) * self.rails + rail - 1
        seen, self.seen[index] = self.seen[index], 1
        return seen

    def partner(self, host, number):
        """Return the partner of a host in a round, or None if it has a free round."""
        if not 0 <= number < self.rounds:
            return self.again.get((number, host))
        return rounds.partner(host, rounds.step_of(number, self.rounds, len(self.hosts)), len(self.hosts))

    # ---- the phases of the run ----

    def wait(self, seconds, progress=lambda: None):
        """Handle lines until no host is pending, or the time is over."""
        end = time.monotonic() + seconds
        while self.pending and (left := end - time.monotonic()) > 0:
            self.streams.receive(min(left, TICK), self.handle)
            for stream in self.streams.ended():
                self.end_of(stream)
            self.console.flush()
            if self.signal:
                raise Interrupted
            progress()

    def end_of(self, stream):
        """Handle the end of a command: its hosts leave."""
        for name in stream.names:
            self.leave(self.numbers[name], stream.last or f"'{stream.process.args[0]}' has ended without a message")
        stream.names = ()

    def send(self, *lines):
        """Send lines of the plan to all hosts."""
        self.streams.send("".join(line + "\n" for line in lines).encode())

    def start(self):
        """Start the shells and the servers."""
        options = self.options
        life = (self.rounds + 2 * rounds.AGAIN) * self.slot + 6 * self.limit
        shell = ["timeout", str(life), "sh", "-s"]
        self.streams.allow(1 if options.slurm else len(self.hosts))
        self.console.record("pairs", hosts=[dataclasses.asdict(host) for host in self.hosts], rounds=self.rounds,
                            duration=options.duration, size=options.size, min_rate=options.min_rate or None,
                            timeout=options.timeout)
        self.pending = set(range(len(self.hosts)))
        if options.slurm:
            names = [host.name for host in self.hosts]
            step = ["srun", "--overlap", "--input=all", "--kill-on-bad-exit=0", "--ntasks-per-node=1", f"--nodes={len(names)}",
                    f"--ntasks={len(names)}", f"--nodelist={','.join(names)}"]
            self.streams.start(step + shell, set(names))
        else:
            for host in self.hosts:
                self.streams.start([*(options.on or SSH), host.name, "--", *shell, host.name], {host.name})
        script = pathlib.Path(__file__).with_name("host.sh").read_text(encoding="utf-8")
        self.send(script, f"serve {options.timeout} {options.size} {options.duration}")
        self.wait(self.limit)
        for host in self.pending.copy():
            self.leave(host, f"no answer within {self.limit} s")
        for stream in self.streams.all:
            if not any(self.numbers[name] in self.ports for name in stream.names):
                self.streams.give_up(stream)
        if len(self.ports) < 2:
            self.refuse()

    def refuse(self):
        """Say why no path can be measured."""
        for host, reason in sorted(self.absent.items()):
            self.console.say(f"{self.hosts[host].name} takes no part: {reason}")
        raise Failure("fewer than two hosts take part: no path was measured")

    def plan(self):
        """Send the list of hosts, and compare the clocks."""
        self.pending = set(self.ports)
        self.pinged = milliseconds()
        self.send(*(f"host {host.name} {','.join(host.addresses)} {self.ports.get(number, 0)}"
                    for number, host in enumerate(self.hosts)), "ping")
        self.wait(self.limit)
        self.slowest = milliseconds() - self.pinged
        for host, wrong in self.wrong.items():
            if abs(wrong) >= WRONG_CLOCK * 1000:
                self.console.say(f"the clock of {self.hosts[host].name} is {abs(wrong) / 1000:.1f} s "
                                 f"{'ahead of' if wrong > 0 else 'behind'} this machine's: corrected for this run")
        self.send(*(f"correct {self.hosts[host].name} {-wrong}" for host, wrong in self.wrong.items() if wrong))

    def measure(self, first, count, steps, slot):
        """Run `count` rounds of `slot` seconds from `first` on. They begin when each host has surely read the line."""
        begin = milliseconds() + 1000 + 2 * self.slowest
        self.pending = set(self.ports) - set(self.absent)
        self.send(f"begin {begin} {slot * 1000} {first} {first + count - 1} {steps}")
        end = begin + count * slot * 1000

        def progress():
            left = max(end - milliseconds(), 0) / 1000
            number = min(max(count - math.ceil(left / slot) + 1, 1), count)
            what = "round" if steps else "second look, round"
            self.console.progress(f"{what} {number} of {count}, {self.tally.failed} failed, {self.tally.slow()} slow, "
                                  f"{duration(left)} left")

        self.wait(end / 1000 - time.time() + self.limit, progress)
        for number in range(first, first + count):
            self.complete(number)

    def complete(self, number):
        """Add a failure for each session of a round that has no result."""
        for host in self.ports:
            server = self.partner(host, number)
            for rail in range(1, self.rails + 1) if server in self.ports else ():
                if not self.was_seen(host, number, rail):
                    reason = self.late.get((host, number), "no result arrived")
                    self.keep(host, server, number, rail, Session(reason=reason))

    def look_again(self):
        """Measure the pairs of hosts again that have a bad path. They get twice the time: one may only have been late."""
        verdict = self.verdict()
        self.again = rounds.second_look(verdict.bad_pairs(), self.rounds)
        if self.again:
            self.send(*(f"pair {number} {one} {other}" for (number, one), other in self.again.items() if one < other))
            self.measure(self.rounds, max(number for number, _ in self.again) - self.rounds + 1, 0, 2 * self.slot)
            self.paths.merge()

    def verdict(self):
        """Return the verdict about the results so far."""
        return Verdict(self.paths, len(self.hosts), self.rails, self.options.min_rate, self.absent)

    def run(self):
        """Run all phases, and end all commands, whatever happens."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: setattr(self, "signal", number))
        try:
            self.start()
            self.plan()
            self.measure(0, self.rounds, self.rounds, self.slot)
            self.look_again()
            verdict = self.verdict()
        finally:
            self.end()
        return verdict

    def end(self):
        """End all commands."""
        for stream in self.streams.end(HURRY if self.signal else self.limit):
            for name in stream.names:
                self.console.say(f"the command for {name} did not end, and was killed: check that the host still runs")


def milliseconds():
    """Return the time as the hosts' date(1) prints it, in milliseconds."""
    return time.time_ns() // 1000000
