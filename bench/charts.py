#!/usr/bin/env python3
"""Draws the charts of README.md from bench/results/*.json, as SVG into docs/images.

    charts.py            writes them
    charts.py --check    exits with status 1 if one differs from its results

Each file of results names the command that made its figures. Bars of different runs are comparable because they are
ratios within a run, or memory.
"""

import html
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE.parent / "docs/images"
WIDTH, NAMES, VALUES, ROW, TOP = 760, 230, 120, 26, 62
STYLE = """\
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.note{font-size:12px;fill:#59636e}.name,.value{dominant-baseline:middle}
.name{text-anchor:end}.ours{font-weight:600}.bar{fill:#afb8c1}.bar.ours{fill:#1a7f37}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.bar{fill:#656c76}.bar.ours{fill:#3fb950}}"""


def value(row):
    """What a bar shows: as given, a share of the floor in percent (the median over rounds, or of medians), a mean over sets."""
    if "share" in row:
        return 100 * row["share"]
    if "calls" in row:
        return 100 * row["calls"] / row["floor"]
    if "ndcg" in row:
        return sum(row["ndcg"]) / len(row["ndcg"])
    return row["value"]


def label(number, unit):
    if unit and number < 0.1:
        return f"< 0.1{unit}"
    digits = 2 if not unit else 0 if number >= 10 else 1
    return f"{number:,.{digits}f} {unit}".replace(" %", "%").strip()


def chart(results):
    rows = results["rows"]
    # A bar that is ten times as long as the others would hide them: it is cut, and its label says what it is.
    shown = sorted(map(value, rows))
    most = shown[-2] if shown[-1] > 4 * shown[-2] else shown[-1]
    height = TOP + ROW * len(rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{html.escape(results['title'])}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="24">{html.escape(results["title"])}</text>',
        f'<text class="note" x="8" y="44">{html.escape(results["note"])} {results["better"].capitalize()} is better.</text>',
    ]
    for at, row in enumerate(rows):
        number, top = value(row), TOP + ROW * at
        length = round(max(2, min(1, number / most) * (WIDTH - NAMES - VALUES)), 1)
        ours = " ours" if row.get("ours") else ""
        text = label(number, results["unit"]) + (" (cut)" if number > most else "")
        lines += [
            f'<text class="name{ours}" x="{NAMES - 10}" y="{top + 9}">{html.escape(row["name"])}</text>',
            f'<rect class="bar{ours}" x="{NAMES}" y="{top}" width="{length}" height="18" rx="3"/>',
            f'<text class="value{ours}" x="{NAMES + length + 6}" y="{top + 9}">{html.escape(text)}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


def main():
    stale = []
    for file in sorted((HERE / "results").glob("*.json")):
        drawn, image = chart(json.loads(file.read_text())), IMAGES / f"{file.stem}.svg"
        if "--check" in sys.argv[1:]:
            if not image.exists() or image.read_text() != drawn:
                stale.append(image.name)
        else:
            image.write_text(drawn)
    for name in stale:
        print(f"error: docs/images/{name} is not what bench/results says; run bench/charts.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
