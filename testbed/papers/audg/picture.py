"""PSURDG − AUDG over the delay, measured and printed."""

from __future__ import annotations

from matplotlib.figure import Figure

from testbed.papers.audg.cells import ACCURACY, DELAYS, TITLES, row
from testbed.papers.chapter import Picture
from testbed.papers.drawing import COLOURS, STYLES
from testbed.papers.result import Results


def picture(results: Results) -> Picture:
    def draw(figure: Figure) -> None:
        ours, paper = figure.subplots(1, 2)
        for number, setting in enumerate(TITLES):
            colour, style = COLOURS[number], STYLES[number]
            found = [(cell.delay, cell.differences(results)) for cell in row(setting) if cell.differences(results)]
            x = [delay for delay, _ in found]
            ours.plot(x, [sum(d) / len(d) for _, d in found], color=colour, linestyle=style, label=TITLES[setting])
            ours.fill_between(
                x, [min(d) for _, d in found], [max(d) for _, d in found], color=colour, alpha=0.15, linewidth=0
            )
            paper.plot(DELAYS, ACCURACY[setting], color=colour, linestyle=style, label=TITLES[setting])
        for axes, title in ((ours, "measured"), (paper, "printed")):
            axes.axhline(0, linewidth=0.8, color="black")
            axes.set(title=title, xlabel="mean delay of the first device (iterations)", xticks=DELAYS)
        ours.set_ylabel("PSURDG − AUDG, accuracy")
        ours.legend()

    return Picture(
        name="differences",
        caption="PSURDG − AUDG in accuracy after 50 iterations over the delay of the first device: mean and range over"
        " seeds, and what the paper prints. The scales differ.",
        draw=draw,
    )
