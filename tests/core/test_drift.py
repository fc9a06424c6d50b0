"""What we check before a request is LightRAG's own rule, taken from the installed server."""

from __future__ import annotations

import json
import subprocess
import sys

from dsh_lightrag import Code, LightRagError
from dsh_lightrag.question import accepted_question
from dsh_lightrag.tools.insert import document_id, filed_name
from dsh_lightrag.tools.query_data import MAX_TOTAL_CHARS


def in_lightrag(code, given=""):
    """Run a few lines beside LightRAG's own code and return what they print as JSON."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", code],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=90,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def passes(text):
    try:
        return bool(accepted_question(text, "mix", "question"))
    except LightRagError:
        return False


def test_the_minimum_length_of_a_question_is_the_servers_for_every_character():
    code = (
        "import json\nfrom lightrag.query_validation import validate_rag_query\n"
        "def passes(text):\n"
        "    try:\n        validate_rag_query(text)\n        return True\n"
        "    except ValueError:\n        return False\n"
        "print(json.dumps([c for c in json.loads(input()) if passes(chr(c) + 'a')]))"
    )
    # Every character of the planes that have any script, and every 97th of the empty ones.
    points = [*range(0xD800), *range(0xE000, 0x40000), *range(0x40000, 0x110000, 97)]
    wide = in_lightrag(code, json.dumps(points))
    assert len(wide) > 100_000
    assert [point for point in points if passes(chr(point) + "a")] == wide


def test_names_and_ids_are_the_ones_that_the_server_files():
    sources = [
        "curie.txt",
        "some/dir/curie.txt",
        "https://x/docs/ada?x=1",
        " a.txt ",
        "dir/ a.txt",
        "dir/name/",
        "rep.[native].docx",
        "rep.[native-iet].docx",
        "rep.[mineru].pdf",
        "rep.[native].[mineru].pdf",
        "rep.[-F].md",
        "C:\\docs\\a.txt",
        "Größe 漢字: <b>.txt",
        "..",
        "a.[b",
        "a[1].txt",
        "a.[native]",
        "tenant1__doc-42",
    ]
    told = {}
    for source in sources:
        try:
            told[source] = filed_name(source)
        except LightRagError as error:
            assert error.code is Code.INVALID_ARGUMENT  # noqa: PT017 - a refusal promises nothing
    assert len(told) >= 15
    code = (
        "import json, sys\nfrom lightrag.utils import compute_mdhash_id\n"
        "from lightrag.utils_pipeline import normalize_document_file_path as filed\n"
        "names = json.load(sys.stdin)\n"
        "print(json.dumps([[filed(n), compute_mdhash_id(filed(n), prefix='doc-')] for n in names]))"
    )
    # What is sent is the name that was told: the server must file it unchanged.
    names = list(told.values())
    assert in_lightrag(code, json.dumps(names)) == [[name, document_id(name)] for name in names]


def test_the_limit_of_all_text_together_is_the_servers():
    code = "from lightrag.constants import MAX_REQUEST_TEXT_CHARS as most\nprint(most)"
    assert in_lightrag(code) == MAX_TOTAL_CHARS
