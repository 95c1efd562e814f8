# SPDX-License-Identifier: MIT
"""The commands that start a shell on the hosts, and the lines to and from them. Nothing here waits for one host alone."""
import collections
import os
import resource
import selectors
import signal
import subprocess
import time

from status import Failure

# The maximum length of a line from a host. The rest of a longer line is dropped.
MOST_BYTES = 65536
# Seconds between two looks at the processes while they end.
LOOK = 0.05


def plain(data):
    """Return bytes from another host as text without control characters, and not too long."""
    text = data[:300].decode(errors="backslashreplace").strip()
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)


class Stream:
    """A command that starts a shell on one host, or on several. `last` is what it has said that is not for rdma-pairs."""

    def __init__(self, command, names):
        self.names = names
        self.input, self.offset, self.is_closed = collections.deque(), 0, False
        self.partial, self.last, self.is_given_up = b"", "", False
        # A group of its own: a signal of the terminal reaches rdma-pairs alone, which then ends the hosts in order.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        bufsize=0, close_fds=False, start_new_session=True)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)

    def has_ended(self):
        """Return true if no message can come any more. A program that the command leaves behind may keep the pipe open."""
        return self.process.stderr.closed or self.process.poll() is not None

    def lines(self, data):
        """Return the complete lines that end in these bytes."""
        *lines, self.partial = (self.partial + data).split(b"\n")
        self.partial = self.partial[:MOST_BYTES]
        return lines

    def kill(self, number):
        """Send a signal to the command, and to the programs that it has started on this machine."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Streams:
    """All commands."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.all, self.closing = [], []

    def allow(self, count):
        """Raise the limit of open files, so that `count` commands can run: each has three pipes."""
        need = 3 * count + 100
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard not in (resource.RLIM_INFINITY,) and hard < need:
            raise Failure(f"{count} hosts need {need} open files, and the limit is {hard}: raise it (ulimit -n)")
        if soft < need:
            resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))

    def start(self, command, names):
        """Start a command for hosts with these names."""
        try:
            stream = Stream(command, names)
        except OSError as error:
            raise Failure(f"cannot run {command[0]}: {error.strerror}") from None
        self.all.append(stream)
        self.selector.register(stream.process.stdout, selectors.EVENT_READ, (stream, self.read))
        self.selector.register(stream.process.stderr, selectors.EVENT_READ, (stream, self.read_messages))

    def send(self, data, stream=None):
        """Queue bytes for the shell of one stream, or of all."""
        for each in [stream] if stream else self.all:
            if not each.is_closed:
                if not each.input:
                    self.selector.register(each.process.stdin, selectors.EVENT_WRITE, (each, self.write))
                each.input.append(data)

    def receive(self, seconds, handle):
        """Wait at most so long for events, and call handle(stream, line) for each line."""
        for key, _ in self.selector.select(max(seconds, 0)):
            stream, react = key.data
            if not key.fileobj.closed:
                react(stream, handle)

    def ended(self):
        """Return the streams that have ended since the last call."""
        ended = [stream for stream in self.closing if stream.has_ended()]
        self.closing = [stream for stream in self.closing if stream not in ended] if ended else self.closing
        return ended

    def close(self, pipe):
        """Close a pipe."""
        if not pipe.closed:
            if pipe.fileno() in self.selector.get_map():
                self.selector.unregister(pipe)
            pipe.close()

    def write(self, stream, _):
        """Write queued bytes as far as the pipe takes them."""
        try:
            stream.offset += stream.process.stdin.write(memoryview(stream.input[0])[stream.offset:]) or 0
        except OSError:
            self.close_input(stream)
            return
        if stream.offset == len(stream.input[0]):
            stream.input.popleft()
            stream.offset = 0
        if not stream.input:
            self.selector.unregister(stream.process.stdin)

    def close_input(self, stream):
        """End the standard input of a shell, so that it ends, with everything that it has started."""
        stream.is_closed = True
        self.close(stream.process.stdin)

    def read(self, stream, handle):
        """Handle lines from the hosts."""
        data = stream.process.stdout.read(MOST_BYTES)
        if data == b"":
            self.close(stream.process.stdout)
            self.closing.append(stream)
        for line in stream.lines(data) if data else []:
            handle(stream, line)

    def read_messages(self, stream, _):
        """Keep the last message: it may be the reason for which a host takes no part."""
        data = stream.process.stderr.read(MOST_BYTES)
        if data == b"":
            self.close(stream.process.stderr)
        elif data and data.strip():
            stream.last = plain(data.strip().splitlines()[-1])

    def give_up(self, stream):
        """End a command without waiting for it: no host has answered."""
        self.close_input(stream)
        stream.is_given_up = True
        stream.kill(signal.SIGTERM)

    def await_ends(self, streams, seconds):
        """Wait for the ends of these commands, and return those that run after this time."""
        end = time.monotonic() + seconds
        while streams and time.monotonic() < end:
            look = time.monotonic() + LOOK
            while (left := look - time.monotonic()) > 0:
                self.receive(left, lambda stream, line: None)
            streams = [stream for stream in streams if stream.process.poll() is None]
        return streams

    def end(self, patience):
        """End all commands, within `patience` seconds and 2 more. Return those that had to be killed."""
        for stream in self.all:
            self.close_input(stream)
        self.await_ends([stream for stream in self.all if not stream.is_given_up], patience)
        stubborn = [stream for stream in self.all if stream.process.poll() is None]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for stream in stubborn:
                if stream.process.poll() is None:
                    stream.kill(number)
            self.await_ends(stubborn, 1)
        return stubborn
