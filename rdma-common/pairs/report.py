# SPDX-License-Identifier: MIT
"""The result as text."""
from status import FAILED, GOOD, SLOW

# Up to this number of hosts there is a table. At most this number of bad hosts, or of bad paths, is listed.
TABLE_HOSTS, MOST_LINES = 16, 20


def gbits(rate):
    """Return a rate in Gbit/s."""
    return f"{rate / 1e9:.1f}" if rate >= 1e10 else f"{rate / 1e9:.3f}"


def word(bad, failed):
    """Return the word for bad paths, of which `failed` failed."""
    return "failing" if failed == bad else "slow or failing" if failed else "slow"


def lines(verdict, names):
    """Yield the lines of the result."""
    if len(names) <= TABLE_HOSTS:
        for rail in range(1, verdict.rails + 1):
            yield from table(verdict, names, rail)
    yield summary(verdict)
    yield from explanation(verdict, names, "bad", "are", verdict.reference)
    if not verdict.is_compared:
        yield "there is no other path to compare these paths with: --min-rate gives the rate that is good"


def summary(verdict):
    """Return the line with the numbers of paths."""
    counts = [(verdict.state.count(state), text) for state, text in enumerate(("good", "failed", "slow"))]
    return (f"{len(verdict.paths)} paths, median {gbits(verdict.median)} Gbit/s: "
            + ", ".join(f"{count} {text}" for count, text in counts if count))


def record(verdict, names):
    """Return the values of the record about the whole run."""
    good, failed, slow = (verdict.state.count(state) for state in (GOOD, FAILED, SLOW))
    found = [{"host": None if item.host is None else names[item.host], "rail": item.rail, "role": item.role, "bad": item.bad,
              "paths": item.paths, "error": item.reason} for item in verdict.findings]
    return {"paths": len(verdict.paths), "good": good, "slow": slow, "failed": failed,
            "median_bits_per_second": verdict.median or None, "findings": found, "status": verdict.status()}


def differences(worse, better, old, new):
    """Yield the lines about what has changed between two runs. `worse` and `better` are explanations, each with its hosts."""
    yield f"since {old.time}: median {gbits(new.verdict.median)} Gbit/s, {gbits(old.verdict.median)} before"
    yield from explanation(worse, [host.name for host in new.hosts], "newly bad", "became", new.verdict.reference)
    yield from explanation(better, [host.name for host in old.hosts], "no longer bad", "were", old.verdict.reference)


def explanation(found, names, adjective, verb, reference):
    """Yield a line for each host and rail, then one for each other path, the worst first."""
    yield from shortened(findings(found, names, adjective, verb), "hosts and rails", adjective)
    yield from shortened((path_line(found, names, path, adjective, reference) for path in found.single), "paths", adjective)


def shortened(listed, what, adjective):
    """Yield the first lines of a list."""
    more = 0
    for number, line in enumerate(listed):
        if number < MOST_LINES:
            yield line
        else:
            more += 1
    if more:
        yield f"and {more} more {adjective} {what}"


def findings(found, names, adjective, verb):
    """Yield a line for each host, then for each rail, then for each rail of one host. A host may be bad in both roles."""
    by_subject = {}
    for finding in found.findings:
        by_subject.setdefault((finding.host, finding.rail), []).append(finding)
    for (host, rail), items in sorted(by_subject.items(), key=lambda item: 1 if item[0][0] is None else 2 * bool(item[0][1])):
        subject = f"rail {rail}" if host is None else f"host {names[host]}" + (f", rail {rail}" if rail else "")
        bad, failed = sum(item.bad for item in items), sum(item.failed for item in items)
        shares = [f"{item.bad} of {item.paths} paths" + (f" as {item.role}" if item.role else "") for item in items if item.bad]
        if reasons := [item.reason for item in items if item.reason]:
            yield f"{adjective} {subject}: {reasons[0]}"
        if shares:
            yield f"{adjective} {subject}: {' and '.join(shares)} {verb} {word(bad, failed)}"


def path_line(found, names, path, adjective, reference):
    """Return the line of a bad path."""
    paths = found.paths
    rate, (whole, name) = paths.rate[path], reference
    what = (f"failed: {paths.reasons[paths.error[path]]}" if found.state[path] == FAILED else
            f"slow: {gbits(rate)} Gbit/s, {rate / whole * 100:.0f} % of {name}")
    looks = "twice" if paths.looks[path] > 1 else "once"
    return (f"{adjective} path {names[paths.client[path]]} to {names[paths.server[path]]}, rail {paths.rail[path]}, "
            f"measured {looks}: {what}")


def table(verdict, names, rail):
    """Return the lines of the table of one rail: the host of a row writes to the host of a column."""
    paths = verdict.paths
    cells = {}
    for path, state in enumerate(verdict.state):
        if paths.rail[path] == rail:
            text = "failed" if state == FAILED else gbits(paths.rate[path]) + (" slow" if state == SLOW else "")
            cells[paths.client[path], paths.server[path]] = text
    rows = [[f"rail {rail}, Gbit/s", *names]]
    rows += [[name, *(cells.get((row, column), "-") for column in range(len(names)))] for row, name in enumerate(names)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
