"""Files to text: text-like formats by our own reading, binary ones in a process with limits.

from dsh_lightrag.convert import text_of
text = text_of("report.pdf", data)

faults    what can keep a file from becoming text
reading   which reader a file gets, by its name
limits    how much one conversion may take
plain     bytes that are text: encodings, and the refusal of what is binary
page      HTML to text, in time linear in the page
office    PDF, Word, PowerPoint and Excel: the parent's side of the child process
child     the child's side: limits first, then the package is checked, then it is converted
archive   what a package of files (a zip) must be like before it is opened
"""

from __future__ import annotations

from dsh_lightrag.convert.faults import ConversionError
from dsh_lightrag.convert.limits import DEFAULT_LIMITS, Limits
from dsh_lightrag.convert.reading import SUPPORTED, is_supported, text_of

__all__ = ["DEFAULT_LIMITS", "SUPPORTED", "ConversionError", "Limits", "is_supported", "text_of"]
