# SPDX-License-Identifier: MIT
"""The plan: which hosts are partners in which round. host.sh computes the same partners."""

# The second look has at most this number of rounds.
AGAIN = 10


def circle_length(count):
    """Return the number of rounds in which each host meets each other one."""
    return count + count % 2 - 1


def partner(host, step, count):
    """Return the partner of a host by the circle method, or None if it has a free round."""
    odd = circle_length(count)
    if host == odd:
        other = step * ((odd + 1) // 2) % odd
    else:
        other = (step - host) % odd
        if other == host:
            other = odd
    return other if other < count else None


def step_of(number, rounds, count):
    """Return the step of the circle for a round. A sample is spread over the circle: neighbours in the list share switches."""
    return number * circle_length(count) // rounds


def second_look(pairs, first):
    """Return {(round, host): partner} from the round `first` on. Each host has one partner in a round; the first pairs win."""
    plan = {}
    for one, other in pairs:
        for number in range(first, first + AGAIN):
            if (number, one) not in plan and (number, other) not in plan:
                plan[number, one], plan[number, other] = other, one
                break
    return plan
