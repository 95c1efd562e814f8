# SPDX-License-Identifier: MIT
"""The results: a short record for each path."""
import array
import json

from streams import plain

# The number of different reasons that are kept; a reason may contain a port number or an address.
MOST_REASONS = 4096
# The maximum number of error counters in a record, and the maximum of a rate in bit/s. Another host sends them.
MOST_COUNTERS, MOST_RATE = 64, 1e18


class Session:
    """The result of a session, from the JSON object of a client on another host: a rate, or the reason why there is none."""

    def __init__(self, text=b"", reason="rdma-client printed no result"):
        self.rate, self.status, self.counters, self.reason = 0, None, None, reason
        try:
            session = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(session, dict):
            self.take(session)

    def take(self, session):
        """Take the values, if they are possible ones."""
        status, rate, counters = (session.get(key) for key in ("status", "bits_per_second", "error_counters"))
        if type(status) is not int or not 0 <= status <= 255:
            return
        self.status = status
        if isinstance(counters, dict):
            self.counters = {plain(name.encode()): count for name, count in list(counters.items())[:MOST_COUNTERS]
                             if type(count) is int and count > 0}
        if status:
            self.reason = plain(str(session.get("error") or f"rdma-client ended with status {status}").encode(errors="replace"))
        elif type(rate) not in (int, float) or not 0 < rate < MOST_RATE:
            self.reason = "rdma-client measured no rate"
        else:
            self.rate, self.reason = float(rate), ""


class Paths:
    """The paths in the order in which they were measured. `error` is the number of a reason; 0 means success."""

    def __init__(self):
        self.client, self.server, self.error = array.array("H"), array.array("H"), array.array("H")
        self.rail, self.looks, self.rate = array.array("B"), array.array("B"), array.array("d")
        self.reasons, self.numbers = [""], {"": 0}
        self.again = {}  # the results of the second look
        self.first_median = None

    def __len__(self):
        return len(self.client)

    def number(self, reason):
        """Return the number of a reason."""
        if reason not in self.numbers:
            if len(self.reasons) == MOST_REASONS:
                return self.number("one of many reasons: see the records of --json")
            self.numbers[reason] = len(self.reasons)
            self.reasons.append(reason)
        return self.numbers[reason]

    def add(self, client, server, rail, rate, reason):
        """Add the result of the first look at a path."""
        self.client.append(client)
        self.server.append(server)
        self.rail.append(rail)
        self.rate.append(rate)
        self.error.append(self.number(reason))
        self.looks.append(1)

    def look_again(self, client, server, rail, rate, reason):
        """Keep the result of the second look until merge()."""
        self.again[client, server, rail] = rate, reason

    def median(self):
        """Return the median of the rates, or 0 if all paths failed. The second look does not move it."""
        if self.first_median is None:
            rates = sorted(rate for rate, error in zip(self.rate, self.error) if not error)
            return (rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2 if rates else 0
        return self.first_median

    def merge(self):
        """Let the better result of each path count."""
        self.first_median = self.median() or None
        for path, key in enumerate(zip(self.client, self.server, self.rail)) if self.again else ():
            if key in self.again:
                rate, reason = self.again[key]
                self.looks[path] = 2
                if not reason and (self.error[path] or rate > self.rate[path]):
                    self.rate[path], self.error[path] = rate, 0
        self.again.clear()
