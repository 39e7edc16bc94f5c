"""A figure as part of a page: with the page's ink, its own names of parts, and a size that follows the page."""

from __future__ import annotations

from xml.etree import ElementTree

from testbed.report.content.wording import printable
from testbed.report.figures import style
from testbed.report.figures.style import BLUE, INK, ReportFigure

_LEFT_OUT = ("metadata", "style", "title")
"""matplotlib's style would hold for the whole page; ours has what it says."""


def svg(picture: ReportFigure) -> str:
    """As text that may stand in HTML."""
    root = ElementTree.fromstring(style.svg(picture.figure))  # noqa: S314  written by matplotlib just now
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain(child.tag) in _LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        element.tag = _plain(element.tag)
        told = picture.titles.get(element.get("id", ""))
        element.attrib = {_plain(key): _replaced(_plain(key), value, picture.name) for key, value in element.items()}
        if told is not None:
            title = ElementTree.Element("title")
            title.text = printable(told)
            element.insert(0, title)
            element.set("class", "told")
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-label", printable(f"{picture.title}. {picture.gist}"))
    return ElementTree.tostring(root, encoding="unicode")


def _plain(name: str) -> str:
    """HTML knows SVG without namespaces."""
    return name.rpartition("}")[2]


def _replaced(key: str, value: str, name: str) -> str:
    """Parts of several figures have the same names, and all are in one document now."""
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}" if value.startswith("#") else value
    value = value.replace("url(#", f"url(#{name}-").replace(INK, "currentColor")
    return value.replace(BLUE.lower(), f"var(--blue, {BLUE})")  # hard to see by night
