"""What keeps a file from becoming text, each with the action that mends it."""

from __future__ import annotations

from typing import NamedTuple


class ConversionError(Exception):
    """A file that gives no text.

    Attributes:
        problem: one sentence of what is wrong; never quotes the file.
        mend: what to do about it.
    """

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem, mend)
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.problem} {self.mend}"


class Fault(NamedTuple):
    """The words of one kind of fault."""

    problem: str
    mend: str


# What the child process may say; it answers with the key and nothing else.
FAULTS: dict[str, Fault] = {
    "encrypted": Fault("The file is encrypted.", "Save it without a password."),
    "damaged": Fault(
        "The file is damaged, cut short or not of the format that its name says.",
        "Open it in its own program and save it again.",
    ),
    "bomb": Fault(
        "The file unpacks to far more than it should hold.", "Save the document anew, or split it."
    ),
    "crowded": Fault("The file packs too many parts.", "Save the document anew, or split it."),
    "climbs": Fault(
        "The file packs parts whose paths leave it.",
        "Open it in its own program and save it again.",
    ),
    "entities": Fault(
        "The file declares XML entities, which documents of its kind never do.",
        "Open it in its own program and save it again.",
    ),
    "nested": Fault("The file is nested too deeply.", "Save the document anew, or simplify it."),
    "endless-tag": Fault(
        "The file's XML holds a tag or comment that does not end.",
        "Open it in its own program and save it again.",
    ),
    "reaches-out": Fault(
        "The file needs other files or the network, which are never followed.",
        "Embed what it links to, or save it as PDF.",
    ),
    "too-much-memory": Fault("The file needs too much memory.", "Split it."),
    "too-slow": Fault("The file takes too long to read.", "Split it."),
    "too-much-text": Fault("The file holds too much text.", "Split it."),
    "broken": Fault(
        "The file broke the program that reads its format.",
        "Open it in its own program and save it again.",
    ),
    "missing": Fault(
        "Files of this format need an extra that is not installed.",
        "Run pip install 'dsh-lightrag[files]', or save the file as text.",
    ),
}


def fault(key: str) -> ConversionError:
    """Return the error of a kind of fault."""
    return ConversionError(*FAULTS[key])
