# SPDX-License-Identifier: MIT
"""--picture: a heat map of all paths or, of a sample, a bar for each host. gnuplot draws it."""
import os
import statistics
import subprocess

from rounds import circle_length
from status import Failure

# The width and height of the picture in pixels. Up to this number of hosts their names are at the axes.
SIZE, NAMED_HOSTS = 900, 64
# The colours of the shares of the median: a failed path is black.
PALETTE = "0 'black', 0.01 '#a50026', 0.7 '#f46d43', 0.9 '#fee08b', 0.95 '#d9ef8b', 1 '#1a9850'"

# The heat map in an SVG file is a small image, which a viewer must not smooth.
SHARP_IMAGE = b"<image style='image-rendering:pixelated' "


def require(name):
    """Fail before the measurement if gnuplot is missing, or if the folder of the picture does not permit a file."""
    try:
        subprocess.run(["gnuplot", "--version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f"cannot draw {name} by gnuplot: {getattr(error, 'strerror', error)}: install gnuplot") from None
    folder = os.path.dirname(name) or "."
    if not os.access(folder, os.W_OK):
        raise Failure(f"cannot draw {name}: the folder {folder} is missing, or this user may not write there")


def draw(name, verdict, names, rounds):
    """Draw the picture."""
    lines = (heat_map if rounds >= circle_length(len(names)) else bars)(verdict, names)
    terminal = "svg" if name.endswith(".svg") else "pngcairo"
    script = "\n".join([f"set terminal {terminal} size {SIZE},{SIZE} noenhanced background 'white'", *lines, ""])
    try:
        done = subprocess.run(["gnuplot"], input=script.encode(), capture_output=True, check=True)
        with open(name, "wb") as file:
            file.write(done.stdout.replace(b"<image ", SHARP_IMAGE))
    except subprocess.CalledProcessError as error:
        raise Failure(f"cannot draw {name}: gnuplot: {error.stderr.decode(errors='replace').strip()}") from None
    except OSError as error:
        raise Failure(f"cannot draw {name}: {error.strerror}") from None


def tics(axis, names):
    """Return the names at an axis, if they fit."""
    listed = ", ".join(f"'{name}' {number}" for number, name in enumerate(names))
    return [f"set {axis}tics ({listed}) {'rotate' if axis == 'x' else ''} font ',8'"] if len(names) <= NAMED_HOSTS else []


def rates(verdict):
    """Yield the hosts and the rate of each path in Gbit/s: 0 if it failed."""
    paths = verdict.paths
    for client, server, rate, error in zip(paths.client, paths.server, paths.rate, paths.error):
        yield client, server, 0 if error else rate / 1e9


def heat_map(verdict, names):
    """Return the lines that draw each path as a cell. A cell shows the slowest rail."""
    cells = {}
    for client, server, rate in rates(verdict):
        cells[client, server] = min(rate, cells.get((client, server), rate))
    count = len(names)
    rows = (" ".join(f"{cells[row, column]:.3f}" if (row, column) in cells else "NaN" for column in range(count))
            for row in range(count))
    return ["$rates << END", *rows, "END", *tics("x", names), *tics("y", names),
            f"set xrange [-0.5:{count - 0.5}]", f"set yrange [{count - 0.5}:-0.5]", "set size square", "unset key",
            f"set palette defined ({PALETTE})", f"set cbrange [0:{verdict.median / 1e9 or 1}]",
            'set ylabel "writes"', 'set xlabel "is written to"', 'set cblabel "Gbit/s; black: failed"',
            "plot $rates matrix with image"]


def bars(verdict, names):
    """Return the lines that draw the median and the worst path of each host."""
    of_host = [[] for _ in names]
    for client, server, rate in rates(verdict):
        of_host[client].append(rate)
        of_host[server].append(rate)
    rows = (f"{number} {statistics.median(host):.3f} {min(host):.3f}" for number, host in enumerate(of_host) if host)
    return ["$rates << END", *rows, "END", *tics("x", names), f"set xrange [-1:{len(names)}]", "set yrange [0:*]",
            'set xlabel "host"', 'set ylabel "Gbit/s"', "set style fill solid", "set boxwidth 0.8", "set key above",
            "plot $rates using 1:2 with boxes lc '#91bfdb' title \"median of the host's paths\", "
            "'' using 1:3 with boxes lc '#1a5276' title \"its worst path\""]
