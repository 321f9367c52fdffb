"""Reads C++ as far as tools/tidy.py needs it: includes, code without comments and strings, functions with their sizes.

A heuristic for code that clang-format has formatted, not a parser: it follows braces and parentheses, and knows which text may precede
a brace.
"""

import bisect
import functools
import re
from dataclasses import dataclass

# Text that is not code, longest forms first. A raw string ends at its own delimiter.
NOT_CODE = re.compile(
    r'R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r"|//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<kind>[<"])(?P<path>[^>"\n]+)[>"]', re.MULTILINE)
# After this a brace opens a namespace or a class, even if there are parentheses in between.
SCOPE = re.compile(
    r"\s*(?:(?:public|protected|private)\s*:\s*)?(?:template\s*<[^{]*>\s*)?(?:inline |typedef |static |constexpr |const )*"
    r'(?:(?:namespace|class|union|enum)\b|struct\b(?!\s+\w+\s+\w+\()|extern\s*"\s*"\s*$)'
)
NOT_A_NAME = {"decltype", "alignas", "explicit", "requires", "noexcept", "operator", "__attribute__", "if", "for", "while", "switch", "catch"}
OPENING, CLOSING = "([{<", ")]}>"


@dataclass
class Function:
    name: str
    line: int
    line_count: int
    parameter_count: int


def blank(match):
    """Spaces of the same length, which keep line numbers and columns."""
    return re.sub(r"[^\n]", " ", match.group(0))


def blank_text(match):
    """Like blank, but keeps a string's quotes, since the text before a brace is needed."""
    text = match.group(0)
    return blank(match) if text.startswith("/") else '"' + re.sub(r"[^\n]", " ", text[1:-1]) + '"'


@functools.lru_cache(maxsize=8)
def code_of(text):
    """The text without comments and without the content of strings."""
    return NOT_CODE.sub(blank_text, text)


def includes_of(text):
    """(line, path) of each include."""
    without_comments = NOT_CODE.sub(lambda match: blank(match) if match.group(0).startswith("/") else match.group(0), text)
    return [(text.count("\n", 0, m.start("path")) + 1, m.group("path")) for m in INCLUDE.finditer(without_comments)]


def matching(code, start):
    """The index of the bracket that closes the one at `start`, or the end. Angle brackets count inside angle brackets only."""
    angles = code[start] == "<"
    depth = 0
    for i in range(start, len(code)):
        if code[i] in ("([{<" if angles else "([{"):
            depth += 1
        elif code[i] in (")]}>" if angles else ")]}") and not (code[i] == ">" and code[i - 1] == "-"):
            depth -= 1
            if depth == 0:
                return i
    return len(code)


def parameter_list(head):
    """(name, start, end) of the parameters in the text before a function's brace; None without parameters."""
    i = 0
    while i < len(head):
        if head[i] == "[" or (head[i] == "<" and not re.search(r"operator\s*<?$", head[:i])):
            i = matching(head, i)
        elif head[i] == "(":
            end = matching(head, i)
            word = re.search(r"(~?\w+|operator\s*[^\w\s]+|\])\s*$", re.sub(r"<.*>\s*$", "", head[:i]))
            if word and word.group(1) not in NOT_A_NAME:
                return word.group(1).replace("]", "lambda"), i + 1, end
            i = end
        i += 1
    return None


def count_parameters(text):
    if text.strip() in ("", "void"):
        return 0
    depth, count = 0, 1
    for i, character in enumerate(text):
        if character in OPENING:
            depth += 1
        elif character in CLOSING and text[i - 1] != "-":
            depth -= 1
        elif character == "," and depth == 0:
            count += 1
    return count


def opens_initializer(head, parameters):
    """Whether the brace after `head` begins a value: `x = {`, or `member_{` in a constructor's list."""
    if re.search(r"[=,]\s*$", head):
        return True
    in_member_list = parameters and re.match(r"\)[^:={;]*:(?!:)", head[parameters[2]:])
    return bool(in_member_list) and bool(re.search(r"[\w>]\s*$", head))


def functions_of(text):
    """Every function with a body, in order. Lambdas and local classes count as lines of the function around them."""
    code = DIRECTIVE.sub(blank, code_of(text))
    line_starts = [0] + [m.end() for m in re.finditer("\n", code)]
    found = []
    head_start = i = 0
    while i < len(code):
        if code[i] == "(":
            i = matching(code, i)
        elif code[i] in ";}":
            head_start = i + 1
        elif code[i] == "{":
            head = code[head_start:i]
            parameters = parameter_list(head)
            if opens_initializer(head, parameters):
                i = matching(code, i)  # the next text belongs to the same declaration
            elif SCOPE.match(head) or not parameters:
                head_start = i + 1  # a namespace or a class: look inside
            else:
                name, start, stop = parameters
                end = matching(code, i)
                first, last = (bisect.bisect(line_starts, at) for at in (i, end))
                if re.fullmatch(r"(TYPED_)?TEST(_[FP])?", name):  # named by its suite and its own name
                    name = ".".join(head[start:stop].replace(",", " ").split())
                found.append(Function(name, first, last - first + 1, count_parameters(head[start:stop])))
                i = end
                head_start = end + 1
        i += 1
    return found
