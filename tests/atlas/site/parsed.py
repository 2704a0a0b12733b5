"""A page as a tree, read by the standard library's parser: a second pair of eyes beside the
guard's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img", "wbr"}


@dataclass
class Node:
    """An element: tag, attributes, children and text in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, tag: str, **wanted: str) -> list[Node]:
        """Elements of a name; `class_="x"` looks for one class among several."""
        found = []
        for node in self.walk():
            classes = node.attributes.get("class", "").split()
            if (tag in ("*", node.tag)) and all(
                (v in classes) if k == "class_" else node.attributes.get(k.replace("_", "-")) == v
                for k, v in wanted.items()
            ):
                found.append(node)
        return found

    def one(self, tag: str, **wanted: str) -> Node:
        (node,) = self.all(tag, **wanted)
        return node

    @property
    def text(self) -> str:
        parts = [c if isinstance(c, str) else c.text for c in self.children]
        return " ".join("".join(parts).split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("")
        self.stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {k: v or "" for k, v in attrs})
        self.stack[-1].children.append(node)
        if tag not in VOID:
            self.stack.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].children.append(Node(tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1].tag == tag, f"</{tag}> closes <{self.stack[-1].tag}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def tree(text: str) -> Node:
    """The page as a tree; fails on elements that are not closed in order."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert len(builder.stack) == 1, f"<{builder.stack[-1].tag}> is never closed"
    return builder.root
