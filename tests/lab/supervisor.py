"""`lab up`: owns the hosts, and carries messages between `lab run` processes and the guests' agents."""
import argparse
import collections
import ctypes
import json
import mmap
import os
import pathlib
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
HEADER = struct.Struct("!cII")  # the same as in agent
# Time limits, far longer than each step takes: a step must not fail because the machine is busy.
BOOT_SECONDS = 120
ANSWER_SECONDS = 120
STOP_SECONDS = 30
# Maximum number of packets that wait for a host on the hub, which drops further ones.
HUB_PACKETS = 1000
FAILED = 125
HOSTS = "abcdefghi"  # lab up boots the first N

Machine = collections.namedtuple("Machine", "qemu board cpu console words")
# The options of QEMU and the kernel's command line for each architecture, by its name in dpkg.
MACHINES = {
    # QEMU's older board describes its interrupts in a loop of ACPI byte code, which the kernel runs for each device: this
    # takes a tenth of a second when emulated. With ERMS the kernel and the C library copy with "rep movsb", which
    # copies byte by byte when emulated. The kernel tests timer interrupts within ten ticks, and would report the timer of a
    # busy machine as broken. The emulated TSC is this machine's. Linux 6.1 distrusts it, and takes the HPET, of which it
    # loses time when a host does not run for 20 s. tsc_words() adds its frequency.
    "amd64": Machine("qemu-system-x86_64", "q35", "max,-erms", "ttyS0", "no_timer_check tsc=reliable"),
    # Pointer authentication and SVE take a quarter of an emulated boot.
    "arm64": Machine("qemu-system-aarch64", "virt,gic-version=max", "max,pauth=off,sve=off", "ttyAMA0", ""),
}

# The files and options that one host boots with; `root` and `project` are folders of this machine.
Guest = collections.namedtuple("Guest", "machine accelerator kernel initramfs root project")


class LabError(Exception):
    """An error that is reported to the user."""


class Channel:
    """A non-blocking socket in the supervisor's loop. A queue holds the data that the socket has not accepted yet: its
    limit is the flow control between `lab run` and agent, or for a wire HUB_PACKETS."""

    def __init__(self, lab, connection, receive):
        connection.setblocking(False)
        self.selector = lab.selector
        self.socket = connection
        self.receive = receive
        self.queue = collections.deque()
        self.selector.register(connection, selectors.EVENT_READ, self.ready)

    def send(self, data):
        """Queue data, one packet on packet sockets, and send as much as the peer accepts."""
        self.queue.append(data)
        self.flush()

    def flush(self):
        """Send from the queue; if the peer is full, have the loop call again."""
        try:
            while self.queue:
                count = self.socket.send(self.queue[0])
                self.queue[0] = self.queue[0][count:]
                if not self.queue[0]:
                    self.queue.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self.queue.clear()  # the peer is gone; ready() reports this
        writing = selectors.EVENT_WRITE if self.queue else 0
        self.selector.modify(self.socket, selectors.EVENT_READ | writing, self.ready)

    def ready(self, events):
        """Pass received data to the owner: empty data if the peer is gone. The loop calls this."""
        if events & selectors.EVENT_WRITE:
            self.flush()
        # Read all queued data: the start of a `lab run` must not overtake the end of the previous one.
        while events & selectors.EVENT_READ and self.socket.fileno() >= 0:
            try:
                data = self.socket.recv(1 << 20)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.receive(data)
            if not data:
                return

    def close(self):
        """End the connection."""
        self.selector.unregister(self.socket)
        self.socket.close()


class Host:
    """One QEMU process and the connection to the agent inside."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.process = None
        self.agent = None
        self.monitor = None
        self.wire = None  # the hub's end of the cable; without a hub, unconnected
        self.received = bytearray()
        self.ready = False
        self.deadline = None
        self.abandoned = set()  # runs whose `lab run` is gone, and whose processes are being killed
        self.held = {}  # by run: frames of runs that wait until the abandoned runs have ended
        self.console = f"{lab.folder}/{name}.console"
        self.guest = lab.foreign.get(name, lab.native)

    def start(self):
        """Start the host's QEMU."""
        agent, agent_end = socket.socketpair()
        self.monitor, monitor_end = socket.socketpair()
        self.monitor.settimeout(ANSWER_SECONDS)
        wire, wire_end = socket.socketpair(type=socket.SOCK_DGRAM)
        inherited = (agent_end.fileno(), monitor_end.fileno(), wire_end.fileno())
        with open(self.console, "ab") as console:
            self.process = subprocess.Popen(
                # QEMU must end with the supervisor, even if the supervisor is killed.
                ["setpriv", "--pdeathsig", "KILL", *self.command(*inherited)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                pass_fds=inherited,
                start_new_session=True,
            )
        agent_end.close()
        monitor_end.close()
        wire_end.close()
        self.deadline = time.monotonic() + BOOT_SECONDS
        self.agent = Channel(self.lab, agent, self.receive)
        self.wire = Channel(self.lab, wire, self.spread)

    def command(self, agent, monitor, wire):
        """Return QEMU's command line."""
        lab, guest = self.lab, self.guest
        words = {"HOST": self.name, "HOSTS": " ".join(lab.hosts), "TRANSPORT": lab.options.transport}
        words |= {"PROJECT": PROJECT, "SHARE": lab.share}
        # The kernel's warnings go to the console, and an oops ends the host instead of hanging a test.
        # Security modules, and the accounting of memory and pressure, are off: they take time at each system call.
        append = f"console={guest.machine.console} loglevel=5 panic=-1 oops=panic mitigations=off {guest.machine.words}"
        append += f" cryptomgr.notests lsm=capability psi=0 cgroup_disable=memory {tsc_words(guest)}"
        append += "".join(f' LAB_{name}="{value}"' for name, value in words.items())
        return [
            *qemu_options(guest.machine, guest.accelerator),
            # With room for a second processor QEMU also emulates the memory barriers of the first one. Its virtio devices run in
            # other threads; without the barriers a host sometimes misses an interrupt, and never sends again.
            *("-smp", "1,maxcpus=2", "-m", str(lab.options.memory)),
            *("-kernel", guest.kernel, "-initrd", guest.initramfs, "-append", append),
            *("-chardev", f"file,id=console,append=on,path={escape(self.console)}", "-serial", "chardev:console"),
            *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
            *("-chardev", f"socket,id=agent,fd={agent}"),
            *("-chardev", f"socket,id=shell,server=on,wait=off,path={escape(f'{lab.folder}/{self.name}.shell')}"),
            # Without ioeventfd QEMU serves a device's request on the processor's thread, and does not wake another thread
            # that polls all queues.
            *("-device", "virtio-serial-pci,ioeventfd=off", "-device", "virtconsole,chardev=shell,nr=0"),
            *("-device", "virtserialport,chardev=agent,name=agent,nr=1", "-device", "virtio-rng-pci,ioeventfd=off"),
            *share("root", guest.root, ",readonly=on"),
            *share("project", guest.project, ",readonly=on"),
            *share("share", lab.share, ""),
            *share("slow", lab.slow, ",throttling.bps-write=1000000"),  # a disk of 1 MB/s, which tests mount
            *("-netdev", f"dgram,id=wire,{self.cable(wire)}"),
            # No boot ROM (romfile=): it is in another package, which tests/setup does not install.
            *("-device", f"virtio-net-pci,netdev=wire,romfile=,host_mtu=9000,mac=52:54:00:00:00:0{HOSTS.index(self.name) + 1}"),
            *self.capture(),
        ]

    def cable(self, wire):
        """Return the options of the network cable: to the other host if there are two, otherwise to the supervisor's hub."""
        if len(self.lab.hosts) > 2:
            return f"local.type=fd,local.str={wire}"
        (other,) = self.lab.hosts.keys() - {self.name}
        paths = [escape(f"{self.lab.folder}/{name}.wire") for name in (self.name, other)]
        return f"local.type=unix,local.path={paths[0]},remote.type=unix,remote.path={paths[1]}"

    def spread(self, packet):
        """Repeat this host's packets to all others, as a hub does."""
        for host in self.lab.hosts.values():
            if packet and host is not self and host.process and len(host.wire.queue) < HUB_PACKETS:
                host.wire.send(packet)

    def capture(self):
        """Return the options that capture all packets at host a's end of the wire."""
        if not self.lab.options.capture or self.name != "a":
            return []
        return ["-object", f"filter-dump,id=capture,netdev=wire,file={escape(self.lab.options.capture)}"]

    def receive(self, data):
        """Handle bytes from the agent. No bytes mean that QEMU is gone."""
        if not data:
            self.lost("the host went down by itself", explain=True)
            return
        self.received += data
        while len(self.received) >= HEADER.size:
            kind, run, length = HEADER.unpack_from(self.received)
            if len(self.received) < HEADER.size + length:
                return
            payload = bytes(self.received[HEADER.size : HEADER.size + length])
            del self.received[: HEADER.size + length]
            if kind == b"R":  # the agent runs
                self.ready = True
                self.deadline = None
            elif run in self.abandoned:
                if kind == b"X":
                    self.abandoned.remove(run)
                    self.release()
            elif run in self.lab.runs:
                self.lab.runs[run].channel.send(kind + payload)
                if kind == b"X":
                    del self.lab.runs[run]

    def send(self, kind, run, payload):
        """Send one frame to the agent; hold the frames of a run that begins while an abandoned run is being killed."""
        frame = HEADER.pack(kind, run, len(payload)) + payload
        if kind == b"S" and self.abandoned:
            self.held[run] = []
        if run in self.held:
            self.held[run].append(frame)
        else:
            self.agent.send(frame)

    def abandon(self, run):
        """Have the agent kill the processes of a run, if it has begun."""
        if self.held.pop(run, None) is None:
            self.send(b"A", run, b"")
            self.abandoned.add(run)

    def release(self):
        """Start the waiting runs, if no abandoned run is left."""
        if self.abandoned:
            return
        held, self.held = self.held, {}
        for frames in held.values():
            for frame in frames:
                self.agent.send(frame)

    def lost(self, reason, explain=False):
        """Kill QEMU, and fail the host's runs. If the host did not boot, or went down by itself, show its console."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process = None
        self.agent.close()
        self.wire.close()
        self.monitor.close()
        booting = self.deadline is not None
        self.ready = False
        self.deadline = None
        if booting:
            reason = f"host {self.name} did not boot: {reason}"
        if booting or explain:
            reason += f"; its console ends with\n{tail(self.console)}"
        for client in [client for client in self.lab.runs.values() if client.host is self]:
            client.fail(reason)
        if booting:
            self.lab.failure = self.lab.failure or reason

    def ask_monitor(self, command, **arguments):
        """Run a command of QEMU's monitor. If it fails, report QEMU's message."""
        if self.process is None:
            raise LabError(f"host {self.name} is off")
        try:
            stream = self.monitor.makefile("rwb")
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                answer = {}
                while "return" not in answer and "error" not in answer:
                    answer = json.loads(stream.readline() or b'{"error": {"desc": "QEMU ended"}}')
        except OSError as error:
            raise LabError(f"host {self.name}: {command}: no answer from QEMU: {error}") from error
        if "error" in answer:
            raise LabError(f"host {self.name}: {command}: {answer['error']['desc']}")


class Client:
    """One connection of a `lab` command to the supervisor."""

    def __init__(self, lab, connection):
        self.lab = lab
        self.host = None
        self.number = None
        self.channel = Channel(lab, connection, self.receive)

    def receive(self, message):
        """Handle one message. An empty message means that the command has ended."""
        kind, payload = message[:1], message[1:]
        if not message:
            self.close()
        elif kind == b"S":
            self.start(payload)
        elif kind == b"C":
            self.control(payload.decode().split("\0"))
        elif self.host and self.host.ready and self.number in self.lab.runs:
            self.host.send(kind, self.number, payload)

    def start(self, payload):
        """Begin a run."""
        name, words = payload.split(b"\0", 1)
        host = self.lab.hosts[name.decode()]
        if not host.ready:
            self.fail("the host is off")
            return
        self.host = host
        self.number = self.lab.register(self)
        host.send(b"S", self.number, words)

    def control(self, words):
        """Execute a command that concerns a host's machine, and answer when it is done."""
        command, host = words[0], self.lab.hosts[words[1]]
        try:
            if command == "off":
                host.lost("the host was switched off")
            else:
                host.ask_monitor({"pause": "stop", "resume": "cont"}[command])
        except LabError as error:
            self.fail(str(error))
            return
        self.channel.send(b"X")

    def fail(self, reason):
        """Report to the command that it failed."""
        self.lab.runs.pop(self.number, None)
        self.channel.send(b"F" + reason.encode())

    def close(self):
        """Handle the end of the command. If its process on the host still runs, kill it."""
        if self.lab.runs.pop(self.number, None) and self.host.ready:
            self.host.abandon(self.number)
        self.channel.close()
        self.channel.send = lambda data: None  # ignore a late answer


class Lab:
    """The supervisor: the hosts, a command, and the loop that serves them."""

    def __init__(self, folder, options):
        self.folder = folder
        self.share = f"{folder}/share"
        self.slow = f"{folder}/slow"
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.runs = {}
        self.last_run = 0
        self.command = None
        self.signal = None
        self.failure = None
        os.mkdir(self.share)
        os.mkdir(self.slow)
        require_room(folder, options.hosts, options.memory)
        self.native = native_guest(options.transport, f"{folder}/initramfs")
        self.foreign = {name: foreign_guest(path) for name, path in options.foreign}
        self.hosts = {name: Host(self, name) for name in HOSTS[: options.hosts]}
        self.listener = self.listen(f"{folder}/control")

    def listen(self, path):
        """Return the socket that `lab` commands connect to."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen(256)
        self.selector.register(listener, selectors.EVENT_READ, lambda _: Client(self, listener.accept()[0]))
        return listener

    def register(self, client):
        """Register the client's run. Return the number of the run."""
        self.last_run += 1
        self.runs[self.last_run] = client
        return self.last_run

    def watch_signals(self):
        """Make signals wake up the loop: children that end, and requests to stop."""
        wake, wakeup = socket.socketpair()
        for end in (wake, wakeup):
            end.setblocking(False)
        self.wakeup = wakeup
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self.stop)
        self.selector.register(wake, selectors.EVENT_READ, lambda _: wake.recv(512))

    def stop(self, number, _frame):
        """Handle the first signal: pass it on to the command, which then has STOP_SECONDS to end."""
        if self.signal is None:
            self.signal = number
            self.stop_deadline = time.monotonic() + STOP_SECONDS
            if self.command:
                self.command.send_signal(number)

    def turn(self):
        """Run one turn of the loop: wait for events, handle them, and check the boot deadlines."""
        for key, events in self.selector.select(1):
            # An earlier event of this turn may have closed the socket of this event.
            if self.selector.get_map().get(key.fd) == key:
                key.data(events)
        for host in self.hosts.values():
            if host.deadline and time.monotonic() > host.deadline:
                host.lost(f"not ready after {BOOT_SECONDS} s")

    def boot(self):
        """Boot all hosts at the same time."""
        for host in self.hosts.values():
            host.start()
        while not self.failure and not self.signal and not all(host.ready for host in self.hosts.values()):
            self.turn()
        if self.failure:
            raise LabError(self.failure)

    def run(self, arguments):
        """Boot, run the command, and return the exit status."""
        self.watch_signals()
        self.boot()
        if self.signal:
            return 128 + self.signal
        environment = dict(os.environ, LAB=self.folder, LAB_HOSTS=" ".join(self.hosts))
        environment |= {"LAB_TRANSPORT": self.options.transport, "LAB_MODULES": os.path.dirname(self.native.kernel)}
        try:
            self.command = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *arguments], env=environment)
        except OSError as error:
            raise LabError(f"cannot run setpriv (package util-linux): {error.strerror}") from error
        while self.command.poll() is None:
            self.turn()
            if self.signal and time.monotonic() > self.stop_deadline:
                self.command.kill()
        if self.signal:
            return 128 + self.signal
        status = self.command.returncode
        return status if status >= 0 else 128 - status

    def close(self):
        """Switch all hosts off."""
        for host in self.hosts.values():
            host.lost("the lab ended")


def escape(value):
    """Return a value for a comma-separated QEMU option."""
    return value.replace(",", ",,")


def share(tag, folder, options):
    """Return the QEMU options for a folder of this machine, which the guest mounts as 9p file system `tag`."""
    return (
        *("-fsdev", f"local,id={tag},path={escape(folder)},security_model=none,multidevs=remap{options}"),
        *("-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},ioeventfd=off"),
    )


def tail(path):
    """Return the last lines of a console log: as many as a kernel prints when it panics."""
    with open(path, errors="replace") as log:
        return "".join(f"  | {line.rstrip()}\n" for line in log.readlines()[-100:])


def require_room(folder, count, memory):
    """Report a lack of memory or disk before it makes a host hang or die."""
    with open("/proc/meminfo") as lines:
        available = next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable:"))
    if available < count * memory:
        raise LabError(f"{count} hosts take {count * memory} MiB of memory, {available} MiB are left; end other programs")
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize >> 20
    if free < 256:
        raise LabError(f"the lab takes 256 MiB of disk, {folder} has {free} MiB left; free some, or set TMPDIR")


def architecture():
    """Return dpkg's name of this machine's architecture, which the hosts have unless `lab up --foreign` names another."""
    try:
        name = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    except OSError as error:
        raise LabError(f"cannot run dpkg: {error.strerror}; the lab needs Debian") from error
    if name not in MACHINES:
        raise LabError(f"the lab runs on {' and '.join(MACHINES)}, this machine is {name}")
    return name


def cache_folder():
    """Return the folder for kernels of this architecture. Without HOME use the home folder that passwd(5) names."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdma-lab", architecture())


def native_guest(transport, initramfs):
    """Return a host of this machine's architecture, with this machine's files."""
    machine = MACHINES[architecture()]
    kernel = prepare_kernel(transport, initramfs)
    return Guest(machine, choose_accelerator(machine, kernel), kernel, initramfs, "/", PROJECT)


def foreign_guest(folder):
    """Return a host of the architecture that a folder is named after, with the files there, which tests/portability wrote."""
    files = [f"{folder}/{name}" for name in ("vmlinux", "initramfs", "root", "tree")]
    return Guest(MACHINES[os.path.basename(folder)], "tcg", *files)


def prepare_kernel(transport, initramfs):
    """Run tests/lab/kernel, which writes the initramfs and caches the kernel. Return the path of the kernel."""
    command = [f"{HERE}/kernel", transport, initramfs, cache_folder()]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        raise LabError("cannot prepare the kernel for the hosts: see the messages above")
    return result.stdout.strip()


def qemu_options(machine, accelerator):
    """Return the program of QEMU and the options that every guest needs, with kvm or tcg."""
    accelerated = ("kvm", "-cpu", "host") if accelerator == "kvm" else ("tcg,thread=multi", "-cpu", machine.cpu)
    return (
        *(machine.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", machine.board, "-accel", *accelerated),
    )


def tsc_words(guest):
    """Return the word that tells an emulated kernel the frequency of the TSC. On a busy machine a kernel measures it wrongly:
    its clock was nine times too fast."""
    if guest.accelerator != "tcg" or guest.machine.qemu != "qemu-system-x86_64" or os.uname().machine != "x86_64":
        return ""
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return ""  # this machine forbids it; the kernel measures
    code.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    start = read_both(read)
    time.sleep(0.005)
    end = read_both(read)
    return f"tsc_early_khz={round((end[1] - start[1]) * 1000000 / (end[0] - start[0]))}"


def read_both(read):
    """Return the clock in nanoseconds and the TSC at the same moment: the closest of ten pairs, because other programs may run
    in between."""
    pairs = [(time.monotonic_ns(), read(), time.monotonic_ns()) for _ in range(10)]
    before, ticks, after = min(pairs, key=lambda pair: pair[2] - pair[0])
    return (before + after) // 2, ticks


def choose_accelerator(machine, kernel):
    """Return LAB_ACCEL if set; else "kvm" if KVM works here (cached until this machine boots again); else "tcg"."""
    chosen = os.environ.get("LAB_ACCEL")
    if chosen:
        if chosen not in ("tcg", "kvm"):
            raise LabError(f"LAB_ACCEL is \"{chosen}\": set it to tcg or kvm")
        return chosen
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    cache = cache_folder()
    answer = cache / f"accelerator-{pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    if not answer.exists():
        for old in cache.glob("accelerator-*"):
            old.unlink(missing_ok=True)
        new = cache / f"new-{os.getpid()}"
        new.write_text("kvm" if kvm_works(machine, kernel) else "tcg")
        new.replace(answer)
    return answer.read_text()


def kvm_works(machine, kernel):
    """Return True if a kernel prints anything under KVM: even if /dev/kvm exists, the guest may hang at once."""
    command = [*qemu_options(machine, "kvm"), "-m", "256", "-kernel", kernel]
    command += ["-append", f"console={machine.console} panic=-1", "-serial", "stdio"]
    probe = subprocess.run(["timeout", "-s", "KILL", "5", *command], stdin=subprocess.DEVNULL, capture_output=True)
    return bool(probe.stdout)


def parse(arguments):
    """Parse the arguments of `lab up`: the options, and the command."""

    def fail(text):
        raise LabError(f"up: {text}; \"lab help\" shows an example")

    def foreign(value):
        name, _, folder = value.partition("=")
        folder = os.path.realpath(folder)
        if name not in tuple(HOSTS) or os.path.basename(folder) not in MACHINES:
            raise ValueError
        return name, folder

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = fail
    parser.add_argument("--hosts", type=int, choices=range(2, len(HOSTS) + 1), default=2)
    parser.add_argument("--transport", choices=("rxe", "siw", "none"), default="rxe")
    parser.add_argument("--memory", type=int, default=768)
    parser.add_argument("--capture", type=os.path.abspath)
    parser.add_argument("--foreign", type=foreign, action="append", default=[])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command:
        fail("give a COMMAND after --")
    return options, command


def make_folder():
    """Create the instance's folder, and start a process that removes it even if the supervisor is killed."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="lab-"))
    remover = subprocess.Popen(
        ["sh", "-c", 'read -r _; rm -rf "$1"', "sh", folder], stdin=subprocess.PIPE, start_new_session=True
    )
    return folder, remover


def up(arguments):
    """Execute `lab up`, and return its exit status."""
    folder, remover = make_folder()
    lab = None
    try:
        options, command = parse(arguments)
        if len(f"{folder}/control") > 107:
            raise LabError(f"the path {folder} is too long for sockets (107 characters); set TMPDIR to a shorter one")
        lab = Lab(folder, options)
        return lab.run(command)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr, flush=True)
        return FAILED
    finally:
        if lab:
            lab.close()
        remover.stdin.close()
        remover.wait()
