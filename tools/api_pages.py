"""Pages about the C++ API, made from the public headers: comments become text, and declarations keep their form.

A heuristic for code that clang-format has formatted, not a parser, as cpp_source is. Private members, namespaces called `detail` and bodies of
functions are left out.
"""

import re
import textwrap
from dataclasses import dataclass, field

from cpp_source import code_of

TYPE = re.compile(r"(?:template\s*<.*?>\s*(?:requires\b[^{;]*?)?)?(?P<kind>class|struct|union|enum(?:\s+class)?)\s+"
                  r"(?:\[\[[^\]]*\]\]\s*)?(?P<name>\w+)", re.DOTALL)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s*([\w:]*)\s*\{")
ACCESS = re.compile(r"(public|private|protected)\s*:(?!:)")
SKIPPED = re.compile(r"(?:template\s*<.*?>\s*)?(?:friend|static_assert|extern template)\b", re.DOTALL)
DELETED = re.compile(r"=\s*delete\s*;$")
AFTER_PARAMETERS = re.compile(r"\s*(?:const|noexcept|override|final|&&?|->|requires|:|$)")
# Words that look like code, for comments without backquotes.
CODE_WORD = re.compile(r"`[^`]*`|(?<![\w`/])(?:[\w~]*::[\w:~]+(?:<[\w:, ]*>)?(?:\(\))?|\.?[A-Za-z]\w*_\w*(?:\(\))?|[A-Za-z][\w.]*\(\)|\.[a-z]\w*)(?![\w`/])")


@dataclass
class Declaration:
    text: str  # without a function's body, with the comment behind it
    comment: str  # above it, without slashes
    follows: bool  # the previous declaration ends in the line above this one
    kind: str = ""  # class, struct, enum ... for a type defined here
    name: str = ""
    members: list = field(default_factory=list)  # of a class


def closing(code, start):
    """The index after the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(code)):
        depth += (code[place] in "([{") - (code[place] in ")]}")
        if depth == 0:
            return place + 1
    return len(code)


def is_function(before):
    """Whether a brace behind this text begins a function's body, rather than a variable's value."""
    before = before.rstrip()
    return before.endswith("}") or (")" in before and bool(AFTER_PARAMETERS.match(before[before.rfind(")") + 1:])))


def without_initialisers(text):
    """A constructor without its initialiser list."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == ":" and depth == 0 and ")" in text[:place] and ":" not in (text[place - 1], text[place + 1:place + 2]):
            return text[:place]
    return text


def end_of(code, start, end):
    """(index after the declaration that begins at `start`, index of the brace of a body to leave out, or None)."""
    place = start
    while place < end:
        if code[place] == ";":
            return place + 1, None
        if code[place] == "{" and not TYPE.match(code, start, place) and is_function(code[start:place]):
            return closing(code, place), place
        place = closing(code, place) if code[place] in "([{" else place + 1
    return end, None


def name_of(code):
    """The declared name: the word before the parameters, the value or the end."""
    code = re.sub(r"\[\[[^\]]*\]\]", "", code)
    code = re.sub(r"^\s*template\s*<[^()]*?>\s*(?=[A-Za-z])", "", code)
    if constraint := re.match(r"requires\s*\(", code):
        code = code[closing(code, constraint.end() - 1):]
    elif code.startswith("requires"):
        code = code.partition("\n")[2]
    match = (re.match(r"TORCH_MODULE\((\w+)", code) or re.match(r"using\s+(\w+)", code)
             or re.search(r"(operator\s*[^\s\w(]+|operator \w+|~?\w+)\s*(?=\()", code) or re.search(r"(\w+)\s*(?=[={;\[]|$)", code))
    return match.group(1) if match else ""


def comment_above(text, start):
    """The comment in the lines right above the declaration."""
    lines, found = text[:text.rfind("\n", 0, start) + 1].splitlines(), []
    while lines and re.match(r"\s*//", lines[-1]):
        found.insert(0, re.sub(r"^\s*// ?", "", lines.pop()))
    return "\n".join(found)


def comment_behind(text, end, indent):
    """The comment that begins in the declaration's last line, with its continuation lines."""
    line, _, rest = text[end:].partition("\n")
    if not line.strip().startswith("//") or "NOLINT" in line:
        return ""
    found = "  " + line.strip()
    for line in rest.splitlines():
        if not re.match(rf"\s{{{indent + 8},}}//", line):
            break
        found += "\n" + line.strip()
    return found


def declarations(text, start=0, end=None, access="public"):
    """The declarations between two places of a header, including those in namespaces."""
    code, place, found = code_of(text), start, []
    end, last = len(text) if end is None else end, start
    while (place := place + re.match(r"[\s;]*", code[place:end]).end()) < end:
        if code[place] == "#":
            place += re.match(r"(?:[^\n]*\\\n)*[^\n]*", code[place:end]).end()
        elif match := NAMESPACE.match(code, place, end):
            inner = closing(code, match.end() - 1)
            if match.group(1) and "detail" not in match.group(1).split("::"):
                found += declarations(text, match.end(), inner - 1)
            place = inner
        elif match := ACCESS.match(code, place, end):
            access, place = match.group(1), match.end()
        else:
            until, body = end_of(code, place, end)
            if access == "public" and not SKIPPED.match(code, place) and not DELETED.search(code, place, until):
                found.append(declaration(text, code, (place, until, body), code[last:place].count("\n") == 1))
            last = place = until
    return [each for each in found if each.text]


def declaration(text, code, places, follows):
    start, until, body = places
    indent = start - (text.rfind("\n", 0, start) + 1)
    shown = text[start:until] if body is None else without_initialisers(text[start:body]).rstrip() + ";"
    comment, behind = comment_above(text, start), comment_behind(text, until, indent)
    match, brace = TYPE.match(code, start, until), code.find("{", start, until)
    if match and brace < 0 and "(" not in shown and "=" not in shown:
        return Declaration("", "", False)  # a forward declaration of a class
    made = Declaration(textwrap.dedent(" " * indent + shown) + behind, comment, follows and not comment, name=name_of(code[start:body or until]))
    if match and brace >= 0 and body is None and "(" not in code[match.end():brace]:
        made.kind, made.name = match.group("kind").split()[0], match.group("name")
        if made.kind != "enum":
            made.members = declarations(text, brace + 1, closing(code, brace) - 1, "private" if made.kind == "class" else "public")
            made.text = textwrap.dedent(" " * indent + text[start:brace]).rstrip()
    return made


def as_prose(comment):
    """A comment as Markdown: text, and examples, which are indented by two spaces or more. Lists stay lists."""
    blocks, code, in_list = [], None, False
    for line in comment.splitlines():
        in_list = line.startswith("- ") or (in_list and line.startswith("  "))
        is_code = line.startswith("  ") and line.strip() != "" and not in_list
        if code is None or (is_code != code and line.strip()):
            code = is_code
            blocks.append((code, []))
        blocks[-1][1].append(line)
    return "\n\n".join(f"```cpp\n{textwrap.dedent(chr(10).join(lines)).strip()}\n```" if is_code else as_text("\n".join(lines).strip())
                       for is_code, lines in blocks)


def as_text(text):
    def replace(match):
        word = match.group(0)
        return word if word.startswith("`") else f"`{word}`"

    parts = re.split(r"(`[^`]*`)", CODE_WORD.sub(replace, text))
    return "".join(part if part.startswith("`") else re.sub(r"([<*_\[\]|\\])", r"\\\1", part) for part in parts)


def groups_of(members):
    """Declarations in order; those that follow each other without a comment are grouped."""
    groups = []
    for member in members:
        if groups and member.follows and not member.kind and not groups[-1][0].kind:
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def members_page(members, level, outer=""):
    found, last = [], None
    for group in groups_of(members):
        first, names = group[0], ", ".join(dict.fromkeys(member.name for member in group))
        if first.members if outer else names != last:
            found.append(f"{'#' * level} {outer}{names}")
        last = names
        found += [as_prose(first.comment)] * bool(first.comment)
        found.append("```cpp\n" + "\n".join(member.text for member in group) + "\n```")
        if first.members:
            found.append(members_page(first.members, level + 1, f"{outer}{first.name}::"))
    return "\n\n".join(found)


def first_sentence(comment):
    text = " ".join(comment.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)])[.:](?:\s|$)", text)[0].rstrip(".:")


def top_comment(text):
    lines = re.match(r"(?:[ \t]*//[^\n]*\n)*", text).group(0).splitlines()
    return "\n".join(re.sub(r"^// ?", "", line) for line in lines)


def page_of(name, text):
    """The page of one header, such as muster/train/early_stopping.h."""
    top = top_comment(text)
    return f"# {name.rsplit('/', 1)[-1]}\n\n```cpp\n#include <{name}>\n```\n\n{as_prose(top)}\n\n{members_page(declarations(text), 2)}\n"
