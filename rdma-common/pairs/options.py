# SPDX-License-Identifier: MIT
"""The command line, and the list of hosts: from the command line, a file, or Slurm."""
import dataclasses
import getopt
import os
import re
import subprocess

from status import Failure

VERSION = "1.0.0"
HELP = """\
Usage: rdma-pairs [OPTION]... HOST HOST...
  or:  rdma-pairs [OPTION]... --hosts FILE
  or:  rdma-pairs [OPTION]... --slurm [HOST HOST...]
  or:  rdma-pairs [OPTION]... --summarize FILE [FILE]
Measure the paths between many hosts with rdma-server and rdma-client, and name
the bad hosts, rails and paths. HOST is NAME or NAME=ADDRESS,ADDRESS...: the
name for ssh, and an RDMA address for each rail.

Hosts:
      --hosts FILE        read the hosts from FILE, one in a line
      --on COMMAND        start a shell on HOST by COMMAND HOST -- (default ssh)
      --slurm             start the shells by one step of Slurm (srun)
Measurement:
      --rounds N          measure N paths of each host (default all, or 16 of
                          more than 64 hosts)
      --duration TIME     measure each path for TIME seconds (default 2)
  -s, --size SIZE         write SIZE bytes at a time (default 1M)
      --min-rate RATE     slow is below RATE bit/s (800M, 10Gbit), instead of
                          below 90 % of the median
  -t, --timeout SECONDS   longest time without progress (default 5)
Output:
  -J, --json              print a JSON object per path on standard output
      --picture FILE      draw the rates by gnuplot; FILE ends in .svg or .png
      --summarize         print the result of a file of --json again, and with
                          an older file before it the differences
  -h, --help              print this help
      --version           print the version

Exit status:
  0  all paths are good   1  a path failed, or a host did not take part
  2  a path is slow       125  there is no result
"""
LETTERS = {"-s": "--size", "-t": "--timeout", "-J": "--json", "-h": "--help"}
# The shells of the hosts read these as words.
NAME, ADDRESS = r"\w[\w.@-]*", r"\w[\w.:%-]*"
# The numbers of hosts have 16 bits.
MOST_HOSTS = 65535
MOST_SECONDS = 100000
# The number of hosts up to which all paths are measured, and the number of paths of each host in a larger cluster.
ALL_HOSTS, SAMPLE = 64, 16


@dataclasses.dataclass
class Host:
    """A host: the name by which a shell starts there, and an RDMA address for each rail."""

    name: str
    addresses: list


@dataclasses.dataclass
class Options:
    """The command line. `words` are its arguments: hosts, or the files of --summarize."""

    words: list
    hosts: str = ""
    on: list = dataclasses.field(default_factory=list)
    slurm: bool = False
    rounds: int = 0
    duration: int = 2
    size: str = "1M"
    min_rate: float = 0
    timeout: int = 5
    json: bool = False
    picture: str = ""
    summarize: bool = False
    help: bool = False
    version: bool = False


def usage(text):
    """Return the failure of a wrong command line."""
    return Failure(f"{text}\nTry 'rdma-pairs --help'.")


def seconds(option, value):
    """Return the number of seconds in a value such as 5 or 5s."""
    number = int(value.rstrip("s")) if re.fullmatch(r"\d{1,6}s?", value, re.ASCII) else 0
    if not 1 <= number <= MOST_SECONDS:
        raise usage(f"{option} takes whole seconds (5 or 5s) from 1 to {MOST_SECONDS}, not '{value}'")
    return number


def rate(option, value):
    """Return the bit/s in a value such as 800M or 10Gbit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:bit(?:/s)?)?", value, re.ASCII)
    if not found or not float(found[1]):
        raise usage(f"{option} takes a rate such as 800M or 10Gbit, not '{value}'")
    return float(found[1]) * 1000 ** " KMGT".index(found[2] or " ")


def rounds(option, value):
    """Return a number of rounds."""
    if not re.fullmatch(r"[1-9]\d{0,5}", value, re.ASCII):
        raise usage(f"{option} takes a whole number from 1 to 999999, not '{value}'")
    return int(value)


def size(option, value):
    """Return a size as it is, because it is for rdma-client."""
    if not re.fullmatch(r"[1-9]\d{0,18}([KMGT](i?B)?)?", value, re.ASCII):
        raise usage(f"{option} takes a size such as 64K or 1MiB, not '{value}'")
    return value


def picture(option, value):
    """Return the name of a file, from which gnuplot's terminal follows."""
    if not value.endswith((".svg", ".png")):
        raise usage(f"{option} takes the name of a file that ends in .svg or .png, not '{value}'")
    return value


# The functions that convert the values of options; the others have no value.
VALUES = {"--hosts": lambda option, value: value, "--on": lambda option, value: value.split(), "--rounds": rounds,
          "--duration": seconds, "--size": size, "--min-rate": rate, "--timeout": seconds, "--picture": picture}
FLAGS = ["--slurm", "--json", "--summarize", "--help", "--version"]


def parse(arguments):
    """Return the options of a command line."""
    long = [option[2:] + "=" for option in VALUES] + [option[2:] for option in FLAGS]
    try:
        pairs, words = getopt.gnu_getopt(arguments, "s:t:Jh", long)
    except getopt.GetoptError as error:
        raise usage(error.msg) from None
    options = Options(words)
    for letter, value in pairs:
        option = LETTERS.get(letter, letter)
        setattr(options, option[2:].replace("-", "_"), VALUES[option](option, value) if option in VALUES else True)
    if options.summarize and len(words) not in (1, 2) and not options.help:
        raise usage("--summarize takes one file, or an older and a newer one")
    return options


def slurm_hosts(nodes):
    """Return the names in a node list of Slurm, such as a[1-3]."""
    try:
        listed = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f"cannot expand the node list {nodes} by scontrol: {error}") from None
    return listed.stdout.split()


def words_of(options):
    """Return the hosts as words: those of the command line, of the file, or of the allocation of Slurm."""
    words = list(options.words)
    if options.hosts:
        try:
            with open(options.hosts, encoding="utf-8") as file:
                words += [word for line in file for word in line.partition("#")[0].split()]
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"cannot read the hosts in {options.hosts}: {error}") from None
    elif not words and "SLURM_JOB_NODELIST" in os.environ:
        words = slurm_hosts(os.environ["SLURM_JOB_NODELIST"])
        options.slurm = not options.on
    return words


def host_of(word):
    """Return the host of a word."""
    if not re.fullmatch(f"{NAME}(={ADDRESS}(,{ADDRESS})*)?", word, re.ASCII):
        raise usage(f"'{word}' is no host: give NAME, or NAME=ADDRESS,ADDRESS...")
    name, _, addresses = word.partition("=")
    return Host(name, addresses.split(",") if addresses else [name])


def hosts_of(options):
    """Return the list of hosts."""
    hosts, given = [host_of(word) for word in words_of(options)], set()
    for host in hosts:
        for item in [host.name] + [address for address in host.addresses if address != host.name or len(host.addresses) > 1]:
            if item in given:
                raise usage(f"'{item}' is given twice: give each host, and each address, once")
            given.add(item)
    if not 2 <= len(hosts) <= MOST_HOSTS:
        raise usage(f"give at least two hosts, and at most {MOST_HOSTS}: rdma-pairs HOST HOST...")
    if len({len(host.addresses) for host in hosts}) > 1:
        raise usage("give each host the same number of addresses, one for each rail")
    return hosts
