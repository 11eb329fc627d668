"""Bars as an SVG that reads well on light and on dark pages. No library: a few rectangles and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 760, 90, 120
BAR, GAP, TITLE, SPACE = 18, 8, 30, 22

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.other { fill: #9aa4af } .ours { fill: #0b6e99 }
.most { fill: none; stroke: #59636e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .other { fill: #6b7682 } .ours { fill: #4cb3de } .most { stroke: #c0c9d2 }
}
"""


@dataclass
class Bar:
    """``most`` is a second, larger value, drawn as a whisker."""

    name: str
    value: float
    most: float | None
    ours: bool


@dataclass
class Panel:
    title: str
    bars: list[Bar]
    unit: str


def draw(panels: list[Panel]) -> str:
    parts, y = [], 8
    for panel in panels:
        body, height = _panel(panel, y)
        parts.append(body)
        y += height + SPACE
    # The words carry the figures for whoever does not see the picture.
    told = ". ".join(
        f"{panel.title}: " + ", ".join(f"{bar.name} {_label(bar, panel.unit)}" for bar in panel.bars)
        for panel in panels
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">\n<title>{escape(told)}</title>\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(panel: Panel, y: int) -> tuple[str, int]:
    largest = max(max(bar.value, bar.most or 0) for bar in panel.bars)
    scale = (WIDTH - LEFT - RIGHT) / largest
    parts = [f'<text class="title" x="0" y="{y + 14}">{escape(panel.title)}</text>']
    at = y + TITLE
    for bar in panel.bars:
        length = max(1.0, bar.value * scale)
        middle = at + BAR / 2
        parts.append(f'<text x="{LEFT - 8}" y="{middle + 4.5}" text-anchor="end">{escape(bar.name)}</text>')
        kind = "ours" if bar.ours else "other"
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{at}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        end = LEFT + length
        if bar.most is not None:
            end = LEFT + bar.most * scale
            parts.append(
                f'<path class="most" d="M{LEFT + length:.1f} {middle}H{end:.1f}M{end:.1f} {middle - 5}v10"/>'
            )
        parts.append(f'<text x="{end + 8:.1f}" y="{middle + 4.5}">{_label(bar, panel.unit)}</text>')
        at += BAR + GAP
    return "\n".join(parts), at - y


def _label(bar: Bar, unit: str) -> str:
    if bar.most is None:
        return f"{bar.value:,.0f}{unit}"
    return f"{bar.value:.1f} to {bar.most:.1f} {unit}"
