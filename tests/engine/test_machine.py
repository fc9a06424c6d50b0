"""Any sequence of insert, replace, delete, catch up, reopen and kill, against a dictionary."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hash_embedder import HashEmbedder
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from dsh_lightrag.engine import Document, DocumentExistsError, Engine, Mode
from dsh_lightrag.engine.terms import terms

WORDS = [
    "Rome",
    "to Rome",
    "lothair ii",
    "rome",
    "Paris",
    "Marie Curie",
    "граф",
    "知识图谱",
    "polonium",
    "Lothair II",
    "\ud800",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(". ".join)
TITLES = st.sampled_from(["", "Rome", "Marie Curie", "Lothair II (king)", "知识图谱"])
IDS = st.sampled_from(["a", "b", "c", "d"])
CLEAN = str.maketrans("\ud800", "\ufffd")


class Base(RuleBasedStateMachine):
    """`stored` says what the base must hold: title and text by document id."""

    ids = Bundle("ids")

    @initialize()
    def create(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "notes.base"
        self.kills = 0
        self.stored = {}
        self.engine = Engine.open(self.path, embedder=HashEmbedder(dimension=8))

    def teardown(self):
        self.engine.close()
        self.folder.cleanup()

    @rule(id_=IDS, title=TITLES, text=TEXTS)
    def insert(self, id_, title, text):
        document = Document(text, title=title, id=id_)
        before = self.stored.get(id_)
        if before is not None and before[1] != text.translate(CLEAN):
            try:
                self.engine.insert(document)
            except DocumentExistsError:
                return
            raise AssertionError("another text was accepted under a stored id")
        assert self.engine.insert(document).fresh == (before is None)
        self.stored.setdefault(id_, (title, text.translate(CLEAN)))

    @rule(id_=IDS, title=TITLES, text=TEXTS)
    def replace(self, id_, title, text):
        fresh = self.engine.replace(Document(text, title=title, id=id_)).fresh
        assert fresh == (id_ not in self.stored)
        self.stored[id_] = (title, text.translate(CLEAN))

    @rule(id_=IDS)
    def delete(self, id_):
        if self.stored.pop(id_, None) is not None:
            self.engine.delete(id_)

    @rule()
    def step(self):
        self.engine.step()

    @rule()
    def reopen(self):
        before = self._answers()
        self.engine.close()
        self.engine = Engine.open(self.path, embedder=HashEmbedder(dimension=8))
        assert self._answers() == before

    @rule()
    def kill(self):
        """Go on with the files as a killed process leaves them: open, the log not folded in."""
        before = self._answers()
        self.kills += 1
        left_behind = self.path.parent / f"killed-{self.kills}.base"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{self.path}{suffix}", f"{left_behind}{suffix}")
        self.engine.close()
        self.path = left_behind
        self.engine = Engine.open(self.path, embedder=HashEmbedder(dimension=8))
        assert self._answers() == before
        assert self.engine.verify() == []

    @rule()
    def answers_are_those_of_a_base_built_anew(self):
        """What was deleted and replaced on the way leaves no trace in any answer."""
        self.engine.catch_up()
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.open(Path(folder) / "anew.base", embedder=HashEmbedder(dimension=8)) as anew,
        ):
            order = sorted(self.stored, key=self._number)
            for id_ in order:
                title, text = self.stored[id_]
                anew.insert(Document(text, title=title, id=id_))
            anew.catch_up()
            for word in WORDS:
                for mode in Mode:
                    assert self._plain(self.engine, word, mode) == self._plain(anew, word, mode)

    @rule()
    def the_base_agrees_with_itself(self):
        assert self.engine.verify() == []

    @invariant()
    def documents_are_those_stored(self):
        assert {state.id for state in self.engine.documents()} == self.stored.keys()
        for id_, (_, text) in self.stored.items():
            assert self.engine.text(id_) == text

    @invariant()
    def every_word_is_found_where_it_stands_and_nowhere_else(self):
        for word in WORDS:
            expected = {
                id_
                for id_, (title, text) in self.stored.items()
                if text.strip() and set(terms(word)) & set(terms(f"{title}\n{text}"))
            }
            answer = self.engine.query(word, Mode.NAIVE, 50)
            found = {hit.chunk.document_id for hit in answer.hits if "keywords" in hit.placings}
            assert found == expected

    def _number(self, id_):
        states = self.engine.documents()
        return [state.id for state in reversed(states)].index(id_)

    def _answers(self):
        return [self.engine.query(word, mode) for word in WORDS for mode in Mode]

    @staticmethod
    def _plain(engine, word, mode):
        return {
            hit.chunk.id: (round(hit.score, 9), hit.chunk.text)
            for hit in engine.query(word, mode, 50).hits
        }


# Every kill copies the base: as many sequences as before take longer than one test may.
TestBase = pytest.mark.timeout(400)(Base.TestCase)
TestBase.settings = settings(
    max_examples=40,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
