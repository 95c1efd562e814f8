# SPDX-License-Identifier: MIT
"""The exit statuses, and the failure that ends the program without a result."""

GOOD, FAILED, SLOW, NO_RESULT = 0, 1, 2, 125


class Failure(Exception):
    """The reason why there is no result."""
