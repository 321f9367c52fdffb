"""Plain English, as far as a program can check it (CONTRIBUTING.md says what is meant): no sentence begins with "Of", "What" or "Whom",
nothing "is no X", no literal is split in the middle of a phrase, and no line of a document is too long.

`problems(path, text)` yields (line, message) for each place in a file's comments, string literals or, of a document, in all of it.
"""

import re

from cpp_source import blank

DOCUMENT_COLUMNS = 160
START = re.compile(r"(?:^|(?<=[.!?]\s))(Of|What|Whom|Whose|Those|Which|By whom|By which|To which|In which) [^.?!]*(?:[.!]|$)")
PHRASES = {
    re.compile(r"(?<!here )\b(?:is|are|was|were) no (?!(?:longer|more|less|fewer|later|earlier|better|worse|such|one)\b)"): "'is no X': 'is not an X', or what it does",
    re.compile(r"\b[Ww]hom\b"): "'whom': name the program, the rank or the person",
    re.compile(r"\b(?:for want of|besides|(?:is|are) of no use|mended|is had)\b"): "an old phrase: say it in everyday words",
    re.compile(r"\b(?:of|by|to) which\b"): "'of which', 'by which', 'to which': make two sentences, or name the thing",
}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SPLIT_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*[^\s"\\.,:;!?)] "\n\s*"[a-z]')


def comments(text, mark):
    """(line, text) of each run of comment lines, and of each comment behind code."""
    found, run, begin = [], [], 0
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare.startswith(mark):
            begin = begin if run else number
            run.append(bare[len(mark):].lstrip("/!<").strip())
            continue
        if run:
            found.append((begin, "\n".join(run)))
            run = []
        code, behind, comment = line.partition(f" {mark} ")
        if behind and code.count('"') % 2 == 0:
            found.append((number, comment.strip()))
    return found + ([(begin, "\n".join(run))] if run else [])


def sentences_of_document(text):
    """(line, text) of each line outside of code blocks and headings; of a table, of each cell."""
    text = re.sub(r"^```.*?^```", blank, text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", lambda match: "x" * len(match.group(0)), text)
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.split("|") if line.startswith("|") else [re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line)]
        found += [(number, cell.strip().lstrip("*")) for cell in cells if cell.strip() and not line.startswith("#")]
    return found


def problems_in(begin, text):
    for match in START.finditer(text):
        if text[match.end():match.end() + 1] != "?":
            yield begin + text.count("\n", 0, match.start()), f"a sentence begins with '{match.group(1)}': begin with who does it"
    for pattern, message in PHRASES.items():
        for match in pattern.finditer(text):
            yield begin + text.count("\n", 0, match.start()), message


def problems(path, text):
    if path.endswith(".md"):
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > DOCUMENT_COLUMNS:
                yield number, f"{len(line)} columns, at most {DOCUMENT_COLUMNS}"
        places = sentences_of_document(text)
    elif path.endswith((".h", ".cc")):
        places = comments(text, "//")
        for match in LITERAL.finditer(text):
            for _, message in problems_in(0, match.group(1)):
                yield text.count("\n", 0, match.start()) + 1, message
        for match in SPLIT_LITERAL.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, "a literal is split in the middle of a phrase: split it behind a comma or a full stop"
    else:
        places = comments(text, "#")
    for begin, prose in places:
        yield from problems_in(begin, prose)
