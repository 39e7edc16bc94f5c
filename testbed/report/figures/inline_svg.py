"""A figure as part of a page: in the page's text colour, with unique ids, and with a size that follows the page."""

from __future__ import annotations

from xml.etree import ElementTree

from testbed.report.content.wording import printable
from testbed.report.figures import style
from testbed.report.figures.style import BLUE, INK, ReportFigure

_LEFT_OUT = ("metadata", "style", "title")
"""matplotlib's style element would apply to the whole page; page.css has the same settings."""


def svg(picture: ReportFigure) -> str:
    """The figure as SVG text that HTML may contain."""
    root = ElementTree.fromstring(style.svg(picture.figure))  # noqa: S314  written by matplotlib
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain(child.tag) in _LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        element.tag = _plain(element.tag)
        hint = picture.hints.get(element.get("id", ""))
        element.attrib = {_plain(key): _replaced(_plain(key), value, picture.name) for key, value in element.items()}
        if hint is not None:
            title = ElementTree.Element("title")
            title.text = printable(hint)
            element.insert(0, title)
            element.set("class", "hint")
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-label", printable(f"{picture.title}. {picture.gist}"))
    return ElementTree.tostring(root, encoding="unicode")


def _plain(name: str) -> str:
    """The name without its namespace: HTML knows SVG without one."""
    return name.rpartition("}")[2]


def _replaced(key: str, value: str, name: str) -> str:
    """The value of an attribute with a unique id: parts of several figures have the same names."""
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}" if value.startswith("#") else value
    value = value.replace("url(#", f"url(#{name}-").replace(INK, "currentColor")
    return value.replace(BLUE.lower(), f"var(--blue, {BLUE})")  # too dark on a dark page
