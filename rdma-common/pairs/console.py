# SPDX-License-Identifier: MIT
"""Standard output and standard error: records, results, messages, progress."""
import datetime
import json
import os
import shutil
import socket
import sys
import time

from options import VERSION
from status import Failure

# Seconds between two lines of progress if standard error is no terminal.
PROGRESS_SECONDS = 60


def can_draw():
    """Return true if standard error is a terminal that erases lines, and NO_COLOR is empty or unset."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")


def duration(seconds):
    """Return a time in words."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


class Console:
    """With --json records go to standard output, and the result to standard error."""

    def __init__(self, is_json):
        self.is_json, self.draws, self.drawn = is_json, can_draw(), False
        self.due = time.monotonic() + PROGRESS_SECONDS

    def out(self, text, flush=True):
        """Print to standard output."""
        try:
            print(text, flush=flush)
        except OSError as error:
            raise Failure(f"cannot write to standard output: {error.strerror}") from None

    def flush(self):
        """Hand on the records that were printed since the last call."""
        try:
            sys.stdout.flush()
        except OSError as error:
            raise Failure(f"cannot write to standard output: {error.strerror}") from None

    def say(self, text):
        """Print a message."""
        print(f"{self.erase()}rdma-pairs: {text}", file=sys.stderr)

    def result(self, text):
        """Print a line of the result."""
        if self.is_json:
            print(f"{self.erase()}{text}", file=sys.stderr)
        else:
            sys.stderr.write(self.erase())
            self.out(text)

    def record(self, kind, **values):
        """Print a record with --json. flush() sends it on its way."""
        if self.is_json:
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")[:-6]
            head = {"kind": kind, "schema": 1, "version": VERSION, "time": now + "Z", "host": socket.gethostname()}
            self.out(json.dumps(head | values), flush=False)

    def erase(self):
        """Return the characters that erase the progress."""
        drawn, self.drawn = self.drawn, False
        return "\r\033[K" if drawn else ""

    def progress(self, text):
        """Show the progress in one line of the terminal; without a terminal print a line each minute."""
        if self.draws:
            sys.stderr.write(f"\r{text[:shutil.get_terminal_size().columns - 1]}\033[K")
            sys.stderr.flush()
            self.drawn = True
        elif time.monotonic() >= self.due:
            self.due += PROGRESS_SECONDS
            self.say(text)
