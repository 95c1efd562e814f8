# SPDX-License-Identifier: MIT
"""The verdict: which paths are bad, and which hosts and rails explain them."""
import dataclasses

from status import FAILED, GOOD, NO_RESULT, SLOW

# A path is slow below this share of the median.
SLOW_SHARE = 0.9
# A host is bad if more than half of its paths are. The worst hosts are found first: their paths then count for no other host.
SHARES = (0.9, 0.7, 0.5)
WRITER, TARGET = "writer", "target"


@dataclasses.dataclass
class Finding:
    """A bad host, rail or adapter (one rail of one host). A host with a `reason` took no part, or left."""

    host: int = None
    rail: int = None
    role: str = None
    bad: int = 0
    failed: int = 0
    paths: int = 0
    reason: str = None


class Explanation:
    """The hosts and rails that explain the bad paths, and the other bad paths.

    `state` has GOOD, SLOW or FAILED for each path. `absent` has the reason of each host that took no part or left.
    """

    def __init__(self, paths, state, count, rails, absent):
        self.paths, self.state = paths, state
        self.left = bytearray(client in absent or server in absent for client, server in zip(paths.client, paths.server))
        self.explained = self.left[:]
        self.findings = [Finding(host=host, reason=reason) for host, reason in sorted(absent.items())]
        self.explain(count, rails)
        self.single = sorted((path for path, state in enumerate(state) if state and not self.explained[path]),
                             key=lambda path: (state[path] != FAILED, paths.rate[path], paths.client[path], paths.server[path]))

    def explain(self, count, rails):
        """Find the hosts, rails and adapters. A rail comes first if nearly all of its paths are bad: no host causes that."""
        client, server, rail = self.paths.client, self.paths.server, self.paths.rail

        def blame_rails(shares):
            self.blame([Finding(rail=number + 1) for number in range(rails)], lambda path: (rail[path] - 1,), shares)

        if rails > 1:
            blame_rails(SHARES[:1])
        self.blame([Finding(host=host, role=role) for role in (WRITER, TARGET) for host in range(count)],
                   lambda path: (client[path], count + server[path]), SHARES)
        if rails > 1:
            blame_rails(SHARES[-1:])
            self.blame([Finding(host=host, rail=number + 1, role=role) for role in (WRITER, TARGET)
                        for host in range(count) for number in range(rails)],
                       lambda path: (client[path] * rails + rail[path] - 1, (count + server[path]) * rails + rail[path] - 1),
                       SHARES)

    def blame(self, suspects, suspects_of, shares):
        """Find each suspect of whose paths more than a share is bad. Paths that another finding explains do not count."""
        for share in shares:
            bad, all_paths = [0] * len(suspects), [0] * len(suspects)
            for path, state in enumerate(self.state):
                if not self.explained[path]:
                    for suspect in suspects_of(path):
                        all_paths[suspect] += 1
                        bad[suspect] += state != GOOD
            guilty = {number for number, count in enumerate(bad) if count > 1 and count > share * all_paths[number]}
            if guilty:
                self.add_findings(suspects, suspects_of, guilty)

    def add_findings(self, suspects, suspects_of, guilty):
        """Add the guilty suspects. They explain all their paths. Their counts leave out the paths to absent hosts."""
        for path, state in enumerate(self.state):
            for suspect in suspects_of(path):
                if suspect in guilty and not self.left[path]:
                    self.explained[path] = 1
                    suspects[suspect].paths += 1
                    suspects[suspect].bad += state != GOOD
                    suspects[suspect].failed += state == FAILED
        self.findings += [suspects[number] for number in sorted(guilty)]


class Verdict(Explanation):
    """The verdict about all paths of `count` hosts. A `min_rate` of 0 means that the median decides."""

    def __init__(self, paths, count, rails, min_rate, absent):
        self.median = paths.median()
        # The path between two hosts cannot be compared with others.
        self.is_compared = len({*paths.client, *paths.server}) > 2 or min_rate > 0
        self.absent, self.count, self.rails = absent, count, rails
        # A slow path is shown as a share of this rate.
        self.reference = (min_rate, "--min-rate") if min_rate else (self.median, "the median")
        least = min_rate or self.median * SLOW_SHARE * self.is_compared
        super().__init__(paths, bytearray(FAILED if error else SLOW if rate < least else GOOD
                                          for rate, error in zip(paths.rate, paths.error)), count, rails, absent)

    def status(self):
        """Return the exit status."""
        if not self.median:
            return NO_RESULT
        return FAILED if self.absent or FAILED in self.state else SLOW if SLOW in self.state else GOOD

    def bad_pairs(self):
        """Return the pairs of hosts to measure again: those with a bad path, first those that no finding explains."""
        bad = sorted((path for path, state in enumerate(self.state) if state), key=lambda path: self.explained[path])
        pairs = {}
        for path in bad:
            one, other = sorted((self.paths.client[path], self.paths.server[path]))
            if one not in self.absent and other not in self.absent:
                pairs[one, other] = None
            if len(pairs) == 20 * self.count:  # more than the second look has room for
                break
        return list(pairs)
