# SPDX-License-Identifier: Apache-2.0
"""The table and the figures of a file that bench/peers/run has written.

Everything shown is computed here, from cells.

Invariant: a missing peer and a void cell are results too, and stay in a table although they have no
figures.
"""

import json
import os
import statistics
import subprocess

import peer_contracts
from peer_list import MAX_LIMIT, MEAN_LIMIT, PEERS, TARGET_WORKERS, TARGETS
from peer_stats import by_round, describe, paired

OURS = "ours"
READS = {peer.name: peer.reads for peer in PEERS}
FIELDS = ("img_s", "cpu_s_per_1000", "first_s", "pss_mb", "gap_p50_ms", "gap_p99_ms")
COLOURS = {
    OURS: "#c44536", "ours_packed": "#9d0208", "ours_index": "#e07a5f", "ours_reencoded": "#e5989b",
    "ours_raw": "#e5989b", "ours_python": "#bc4749", "ours_torch": "#a44a3f",
    "ours_python_packed": "#6a040f", "ours_torch_packed": "#370617", "ours_before": "#8a5a44",
    "light_full": "#adb5bd", "light_roi": "#8d99ae"
}
LINES = dict(COLOURS,
             torch_pillow="#2a9d8f",
             torchvision_tensors="#264653",
             torchcodec="#8ab17d",
             turboloader="#f4a261",
             dali="#76b900",
             spdl="#e9c46a",
             ffcv="#457b9d",
             ffcv_raw="#a8dadc")


def contract_of(result, name, contract):
    """None for rows that only decode, which are shown with every contract."""
    return None if name.startswith("light_") else contract


def values_of(result, name, contract, workers, field):
    return by_round(result["cells"], name, contract_of(result, name, contract), workers, field)


def ratio(result, above, below, contract, workers, field):
    """Described ratios of two rows in the same rounds, or None. contract may be "A3/A2"."""
    first, _, second = contract.partition("/")
    return describe(paired(values_of(result, above, first, workers, field),
                           values_of(result, below, second or first, workers, field)))


def rivals(result):
    return [name for name in result["peers"] if not name.startswith(("ours", "light_"))]


def best_rival(result, contract, workers, field):
    """Name of the peer with the lowest median of a field, or None."""
    medians = {}
    for name in rivals(result):
        about = describe(values_of(result, name, contract, workers, field).values())
        if about:
            medians[name] = about["median"]
    return min(medians, key=medians.get) if medians else None


def check_targets(result):
    """The aims for this run's contracts, with ratio and whether it is met; None: not measured."""
    rows = []
    for above, against, contract, field, sense, bound in TARGETS:
        if not set(contract.split("/")) <= set(result["settings"]["contracts"]):
            continue
        name = best_rival(result, contract, TARGET_WORKERS,
                          field) if against in ("fastest", "leanest") else against
        found = ratio(result, above, name, contract, TARGET_WORKERS,
                      field) if name in result["peers"] else None
        met = None
        if found:
            met = found["median"] >= bound if sense == "at least" else found["median"] <= bound
        rows.append({
            "of": above, "against": against, "peer": name, "contract": contract, "field": field,
            "sense": sense, "bound": bound, "ratio": found, "met": met
        })
    return rows


def show(about, digits=0):
    """A median with its interval."""
    if not about:
        return "–"
    text = "%.*f" % (digits, about["median"])
    if about["low"] is not None:
        text += " [%.*f, %.*f]" % (digits, about["low"], digits, about["high"])
    return text


def show_median(about, digits):
    return "%.*f" % (digits, about["median"]) if about else "–"


def row_of(result, name, contract, workers):
    """One line of a table."""
    about = result["peers"][name]
    missing = about.get("cannot", {}).get(contract) or about["missing"]
    if missing:
        return [about["title"], "missing: " + missing] + [""] * 7
    found = {
        field: describe(values_of(result, name, contract, workers, field).values())
        for field in FIELDS
    }
    voids = [cell["void"] for cell in result["cells"]
             if cell.get("void") and cell["peer"] == name and cell["workers"] == workers
             and cell["contract"] == contract_of(result, name, contract)]
    remarks = list(about.get("flags", []))
    if voids:
        remarks.append("%d void: %s" % (len(voids), voids[0]))
    pixels = about.get("pixels", {})
    return [
        about["title"],
        show(found["img_s"]),
        "" if name == OURS else show(ratio(result, OURS, name, contract, workers, "img_s"), 2),
        show_median(found["cpu_s_per_1000"], 2),
        show_median(found["first_s"], 3),
        show_median(found["pss_mb"], 0),
        show_median(found["gap_p99_ms"], 0),
        "%.2f / %d" % (pixels["mean"], pixels["max"]) if "mean" in pixels else "–",
        "; ".join(remarks)
    ]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + [
        "| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows
    ]


def contract_tables(result):
    lines = []
    for contract in result["settings"]["contracts"]:
        for workers in result["settings"]["workers"]:
            title = peer_contracts.TITLES[contract]
            lines += ["", "## %s; %d worker%s" % (title, workers, "s" if workers > 1 else ""), ""]
            rows = [row_of(result, name, contract, workers) for name in result["peers"]
                    if name.startswith("light_") or takes_part(result, name, contract)]
            lines += table([
                "", "img/s", "millrace / this", "CPU s / 1000", "first batch s", "PSS MB",
                "gap p99 ms", "pixels", "remarks"
            ], rows)
    return lines


def takes_part(result, name, contract):
    """True also for a contract that the row cannot run: its line gives the reason."""
    about = result["peers"][name]
    return contract in about.get("contracts", peer_contracts.PLAIN) or contract in about.get(
        "cannot", {})


def target_table(result):
    rows = []
    words = {
        "img_s": "img/s", "cpu_s_per_1000": "CPU s / 1000", "first_s": "first batch",
        "pss_mb": "PSS"
    }
    for target in check_targets(result):
        against = target["against"]
        if target["peer"] and target["peer"] != against:
            against += ", " + result["peers"][target["peer"]]["title"]
        elif against in result["peers"]:
            against = result["peers"][against]["title"]
        of = {
            OURS: "", "ours_reencoded": ", same files", "ours_packed": ", packed",
            "ours_index": ", index", "ours_raw": ", raw", "ours_tar": ", tar",
            "ours_python": ", from Python", "ours_python_packed": ", from Python",
            "ours_torch": ", drop-in", "ours_torch_packed": ", drop-in"
        }[target["of"]]
        if target["against"] == target["of"]:
            of = ""
        rows.append([
            against + of, target["contract"], words[target["field"]],
            show(target["ratio"], 3),
            "%s %.2f" % (target["sense"], target["bound"]),
            {None: "not measured", True: "met", False: "missed"}[target["met"]]
        ])
    return table(["against", "contract", "of", "millrace / this", "aim", ""], rows)


def commits(result):
    machine = result["machine"]
    text = machine["commit"] or "an unknown commit"
    if "ours_before" in result["peers"]:
        text += ", before at " + (machine.get("before") or "an unknown commit")
    return text


def markdown(result, figures):
    machine, settings, data = result["machine"], result["settings"], result["data"]
    lines = [
        "# millrace and its peers, %s" % result["date"][:10], "",
        "Written by `%s`; [METHOD.md](../METHOD.md) defines the columns." % result["command"], "",
        "%s, cores %s of %d, %d MB; %s; millrace at %s. %s: %d photographs, %.1f MB%s. "
        "%d rounds of %g s."
        % (machine["cpu"], ",".join(map(str, machine["cores"])), machine["cpus"],
           machine["memory_mb"], machine["system"], commits(result), data["name"], data["images"],
           data["bytes"] / 1e6, ", re-encoded %.1f MB" %
           (data["reencoded_bytes"] / 1e6) if "reencoded_bytes" in data else "", settings["rounds"],
           settings["seconds"])
    ]
    if not result.get("complete"):
        lines += ["", "**Not complete**: %d cells so far." % len(result["cells"])]
    lines += [
        "",
        "Medians over the rounds, in brackets their bootstrap 95 %% interval. Pixels: mean and"
        " largest"
        " difference from Pillow on `eval:256:224`, of 255; above %g or %d a row is flagged." %
        (MEAN_LIMIT, MAX_LIMIT)
    ]
    if "quality" in result:
        lines += ["", "Pixels were " + result["quality"] + "."]
    lines += ["", "## Aims, %d workers" % TARGET_WORKERS, ""] + target_table(result)
    for figure in figures:
        lines += ["", "![%s](%s)" % (figure[1], os.path.basename(figure[0]))]
    lines += contract_tables(result) + made_table(result) + [""] + versions(result)
    return "\n".join(lines) + "\n"


def made_table(result):
    """Files made of the photographs before the first cell, by one process or thread."""
    data = result["data"]
    titles = {
        about["reads"]: about["title"] for about in reversed(result["peers"].values())
        if "reads" in about
    }
    rows = [[
        titles.get(kind, kind),
        "%.1f" % (made["bytes"] / 1e6),
        "%.2f" % (made["bytes"] / data["bytes"]),
        "%.0f" % (data["images"] / made["seconds"])
    ] for kind, made in data.get("made", {}).items()]
    if not rows:
        return []
    return ["", "## What was made of the photographs", ""] + table(
        ["", "MB", "of the JPEGs", "img/s"], rows)


def versions(result):
    lines = ["## Versions", ""]
    for about in result["peers"].values():
        words = ["%s %s" % pair for pair in about.get("versions", {}).items()]
        if words:
            lines.append("- %s: %s" % (about["title"], ", ".join(words)))
    return lines


# ---- figures ----

def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def rows_of(result, contract, workers, as_they_are):
    """(name, title, described images/s) of the rows that read the photographs, or of all others."""
    rows = []
    for name, about in result["peers"].items():
        found = describe(values_of(result, name, contract, workers, "img_s").values())
        if found and (READS.get(name, "photos") == "photos") == as_they_are:
            rows.append((name, about["title"], found))
    return sorted(rows, key=lambda row: -row[2]["median"])


def bars(result, workers, as_they_are):
    """gnuplot's script for throughput, with a panel per contract; None without rows."""
    panels = [(contract, rows_of(result, contract, workers, as_they_are))
              for contract in result["settings"]["contracts"]]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return None
    heights = [70 + 30 * len(rows) for _, rows in panels]
    script = [
        "set terminal svg size 760,%d font 'sans,13' background '#ffffff'" % sum(heights),
        "set multiplot", "set style fill solid noborder", "set border 0", "unset key",
        "unset xtics", "set ytics scale 0 noenhanced", "set lmargin 30", "set rmargin 9",
        "set tmargin 2.5", "set bmargin 1", "set bars 0.6"
    ]
    top = sum(heights)
    for (contract, rows), height in zip(panels, heights):
        top -= height
        script += [
            "set origin 0,%g" % (top / sum(heights)),
            "set size 1,%g" % (height / sum(heights)),
            "set title 'images a second: %s, %d workers'" %
            (peer_contracts.CAPTIONS[contract], workers),
            "set yrange [%g:-0.6]" % (len(rows) - 0.4),
            "set xrange [0:%g]" % max(found["high"] or found["median"] for _, _, found in rows),
            "set ytics (%s)" % ", ".join("%s %d" % (quote(title), i)
                                         for i, (_, title, _) in enumerate(rows)), "$rows << end"
        ]
        for i, (name, _, found) in enumerate(rows):
            low, high = found["low"] or found["median"], found["high"] or found["median"]
            colour = int(COLOURS.get(name, "#457b9d")[1:], 16)
            script.append("%d %g %g %g %d" % (i, found["median"], low, high, colour))
        script += [
            "end",
            "plot $rows using ($2/2):1:(0):2:($1-0.33):($1+0.33):5 "
            "with boxxyerror lc rgb variable, "
            "$rows using 2:1:3:4 with xerrorbars lc rgb '#222222' pt -1 lw 1.2, "
            "$rows using 4:1:(sprintf('%.0f', $2)) with labels left offset 1,0"
        ]
    return "\n".join(script + ["unset multiplot"]) + "\n"


def lines_over_workers(result):
    """gnuplot's script for throughput against workers."""
    contracts = result["settings"]["contracts"]
    workers = sorted(result["settings"]["workers"])
    script = [
        "set terminal svg size 1000,%d font 'sans,13' background '#ffffff'" %
        (20 + 380 * len(contracts)),
        "set multiplot layout %d,1" % len(contracts), "set grid lc '#dddddd'", "set border 3",
        "set tics nomirror", "set key outside right", "set xlabel 'num\\_workers'",
        "set ylabel 'images a second'",
        "set xrange [%g:%g]" % (min(workers) - 0.2, max(workers) + 0.2), "set yrange [0:*]",
        "set xtics (%s)" % ", ".join(map(str, workers))
    ]
    for contract in contracts:
        plots = []
        for number, (name, about) in enumerate(result["peers"].items()):
            rows = []
            for count in workers:
                values = values_of(result, name, contract, count, "img_s")
                if values:
                    rows.append("%d %g" % (count, statistics.median(values.values())))
            if rows:
                block = "$w%d%s" % (number, contract)
                script += [block + " << end"] + rows + ["end"]
                colour = LINES.get(name)
                plots.append("%s with linespoints pt 7 lw %g %s title %s" %
                             (block, 3 if name == OURS else 1.5,
                              "lc rgb '%s'" % colour if colour else "", quote(about["title"])))
        if plots:
            script += ["set title '%s'" % peer_contracts.CAPTIONS[contract],
                       "plot " + ", ".join(plots)]
    return "\n".join(script + ["unset multiplot"]) + "\n"


def draw(script, path):
    """False if gnuplot is missing."""
    try:
        done = subprocess.run(["gnuplot"],
                              input="set output %s\n%s" % (quote(path), script),
                              text=True,
                              stderr=subprocess.PIPE,
                              check=False)
    except OSError:
        return False
    if done.returncode != 0:
        raise SystemExit("bench/peers/run: gnuplot: " + done.stderr.strip()[-300:])
    return True


def write(path):
    """Write table and figures beside a JSON file; returns the table."""
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    base = path[:-5] if path.endswith(".json") else path
    counts = result["settings"]["workers"]
    workers = TARGET_WORKERS if TARGET_WORKERS in counts else counts[-1]
    figures = []
    if any(not cell.get("void") for cell in result["cells"]):
        for script, end, title in ((bars(result, workers, True), "", "the files as they are"),
                                   (bars(result, workers,
                                         False), "-packs", "data that are made first"),
                                   (lines_over_workers(result), "-workers",
                                    "throughput against workers")):
            if script and draw(script, base + end + ".svg"):
                figures.append((base + end + ".svg", title))
    text = markdown(result, figures)
    with open(base + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    return text
