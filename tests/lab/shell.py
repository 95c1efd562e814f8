"""`lab shell` and `lab shells`: interactive shells on the hosts."""
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import termios
import tty

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
LAB = os.path.join(HERE, "lab")
CONSOLE = "/dev/hvc0"
# The process is the leader of its session, so the console becomes its controlling terminal when it opens the console.
START = f'cd "$1" && exec <{CONSOLE} >{CONSOLE} 2>&1 && stty sane rows "$2" cols "$3" && echo "$4" && exec bash --norc --noprofile -i'


def lab_run(host, *command):
    """Start `lab run` without a time limit. Return its process."""
    return subprocess.Popen([LAB, "run", "-w", "0", host, *command], stdin=subprocess.DEVNULL)


def welcome(host):
    """Return a text with the name of the host, and a first command for its user."""
    number = ord(host) - ord("a") + 1
    text = f"This is host {host} (192.0.2.{number}, fd00::{number}). Type"
    if host == "a":
        return f"{text}:\n\n    rdma-server write\n"
    return f"{text}, with the port that the server on host a printed:\n\n    rdma-client write 192.0.2.1 PORT\n"


def size():
    """Return the rows and columns of this terminal as strings."""
    columns, rows = os.get_terminal_size(0)
    return str(rows), str(columns)


def has_terminal(command):
    """Return True if standard input is a terminal; otherwise print what the command needs."""
    if not os.isatty(0):
        print(f"lab: {command}: standard input is not a terminal: start this in one; \"lab run\" runs commands without", file=sys.stderr)
    return os.isatty(0)


def shell(host):
    """lab shell: connect this terminal, in raw mode, to a shell on the host's console."""
    if not has_terminal("shell"):
        return 125
    console = socket.socket(socket.AF_UNIX)
    console.connect(os.path.join(os.environ["LAB"], f"{host}.shell"))
    os.environ["PATH"] = f"{PROJECT}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    os.environ["PS1"] = f"host-{host}:\\W\\$ "
    os.environ.pop("HISTFILE", None)
    process = lab_run(host, "sh", "-c", START, "sh", PROJECT, *size(), welcome(host))
    signal.signal(signal.SIGWINCH, lambda *_: lab_run(host, "stty", "-F", CONSOLE, "rows", size()[0], "cols", size()[1]))
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        bridge(console, process)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        process.terminate()
    return process.wait()


def bridge(console, process):
    """Copy bytes both ways until the shell, the host or this terminal is gone."""
    ended = os.pidfd_open(process.pid)
    with selectors.DefaultSelector() as selector:
        for source in (0, console, ended):
            selector.register(source, selectors.EVENT_READ)
        while True:
            sources = [key.fileobj for key, _ in selector.select()]
            if console in sources:
                data = console.recv(65536)
                os.write(1, data)
                if not data:
                    return
            elif ended in sources:
                return  # the console has no more output
            if 0 in sources:
                data = os.read(0, 65536)
                console.sendall(data)
                if not data:
                    return


def shells(hosts):
    """lab shells: show all hosts in one window of a new tmux, until all shells end or the user detaches."""
    if not has_terminal("shells"):
        return 125
    server = ["tmux", "-S", os.path.join(os.environ["LAB"], "tmux"), "-f", "/dev/null"]
    os.environ.pop("TMUX", None)  # this may run inside the user's own tmux
    first, *others = [shlex.join([LAB, "shell", host]) for host in hosts]
    splits = [word for pane in others for word in ("split-window", "-h", pane, ";", "select-layout", "tiled", ";")]
    hint = " Ctrl-b o: other host. Ctrl-b d, or leaving all shells: stop the lab "
    status = subprocess.call(
        [*server, "new-session", first, ";", *splits, "select-pane", "-t", ":.0"]
        + [";", "set", "status-left-length", "90", ";", "set", "status-left", hint]
        + [";", "set", "status-right", "", ";", "set", "window-status-current-format", ""]
    )
    subprocess.call([*server, "kill-server"], stderr=subprocess.DEVNULL)
    return status
