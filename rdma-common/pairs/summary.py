# SPDX-License-Identifier: MIT
"""--summarize: the verdict about the records in a file, and the differences from older records."""
import json
import re

from options import NAME, Host
from paths import Paths
from status import GOOD, Failure
from verdict import Explanation, Verdict


class Records:
    """The records in a file. A line that is no record is ignored."""

    def __init__(self, name):
        self.hosts, self.numbers, self.paths, self.absent = None, {}, Paths(), {}
        self.min_rate, self.time, self.is_complete = 0, "", False
        try:
            with open(name, encoding="utf-8") as file:
                for line in file:
                    self.read(line)
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"cannot read {name}: {error}") from None
        if self.hosts is None:
            raise Failure(f"{name} has no record of kind 'pairs': give the output of rdma-pairs --json")
        self.paths.merge()
        self.verdict = Verdict(self.paths, len(self.hosts), len(self.hosts[0].addresses), self.min_rate, self.absent)

    def read(self, line):
        """Read a record."""
        try:
            record = json.loads(line)
            readers = {"pairs": self.read_head, "path": self.read_path, "host": self.read_host, "verdict": self.read_verdict}
            readers[record["kind"]](record)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            pass

    def read_head(self, record):
        """Read the list of hosts."""
        hosts = [Host(host["name"], host["addresses"]) for host in record["hosts"]]
        self.min_rate, self.time, self.rounds = record["min_rate"] or 0, record["time"], record["rounds"]
        self.numbers = {host.name: number for number, host in enumerate(hosts)}
        if all(re.fullmatch(NAME, host.name, re.ASCII) for host in hosts):
            self.hosts = hosts

    def read_path(self, record):
        """Read the result of a path."""
        add = self.paths.add if record["look"] == 1 else self.paths.look_again
        add(self.numbers[record["client"]], self.numbers[record["server"]], record["rail"],
            record["bits_per_second"] or 0, record["error"] or "")

    def read_host(self, record):
        """Read the reason for which a host took no part."""
        self.absent[self.numbers[record["name"]]] = record["error"]

    def read_verdict(self, record):
        """The run has ended."""
        self.is_complete = True


def keys(records, numbers):
    """Return the key of each path, with the numbers that its hosts have elsewhere."""
    elsewhere = [numbers.get(host.name) for host in records.hosts]
    paths = records.paths
    return ((elsewhere[client], elsewhere[server], rail) for client, server, rail in zip(paths.client, paths.server, paths.rail))


def became_bad(before, after):
    """Explain the paths that are bad in the records `after`, and were good in the records `before`. Absent hosts are bad."""
    numbers, state = after.numbers, after.verdict.state
    bad = {key for key, state in zip(keys(after, numbers), state) if state != GOOD}
    were_good = {key for key, state in zip(keys(before, numbers), before.verdict.state) if state == GOOD and key in bad}
    changed = bytearray(state if key in were_good else GOOD for key, state in zip(keys(after, numbers), state))
    absent = {host: reason for host, reason in after.absent.items()
              if before.numbers.get(after.hosts[host].name) not in before.absent}
    return Explanation(after.paths, changed, len(after.hosts), after.verdict.rails, absent)
