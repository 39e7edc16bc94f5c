"""PSURDG − AUDG over the delay, measured and printed."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from testbed.papers.audg.audg_grid import ACCURACY, DELAYS, LONG, TITLES, row
from testbed.papers.framework.chapter import PaperFigure
from testbed.papers.framework.paper_figures import COLOURS, STYLES
from testbed.papers.framework.result import Results


def picture(results: Results) -> PaperFigure:
    def draw(figure: Figure) -> None:
        ours, longer, paper = figure.subplots(1, 3)
        for number, setting in enumerate(TITLES):
            look = {"color": COLOURS[number], "linestyle": STYLES[number], "label": TITLES[setting]}
            for axes, long in ((ours, False), (longer, True)):
                cells = row(setting, long=long)
                found = [(cell.delay, gaps) for cell in cells if (gaps := cell.differences(results))]
                x = [delay for delay, _ in found]
                axes.plot(x, [fmean(gaps) for _, gaps in found], **look)
                ends = [min(gaps) for _, gaps in found], [max(gaps) for _, gaps in found]
                axes.fill_between(x, *ends, color=COLOURS[number], alpha=0.15, linewidth=0)
            paper.plot(DELAYS, ACCURACY[setting], **look)
        for axes, title in ((ours, "measured"), (longer, f"measured at {LONG}·η"), (paper, "printed")):
            axes.axhline(0, linewidth=0.8, color="black")
            axes.set(title=title, xlabel="mean delay of the first device", xticks=DELAYS)
        ours.set_ylabel("PSURDG − AUDG, accuracy")
        paper.legend(loc="lower left")

    return PaperFigure(
        name="differences",
        caption="PSURDG − AUDG in accuracy after 50 iterations over the delay of the first device: mean and range over"
        " seeds at the searched η and at three times that, and what the paper prints. The scales differ.",
        draw=draw,
    )
