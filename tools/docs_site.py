#!/usr/bin/env python3
"""Builds the site of all documents and of the C++ API: `./dev docs`.

    tools/docs_site.py FOLDER

Runs in the environment of MkDocs Material. docs/index.md gives the table of contents. Each public header has a page (api_pages.py), as does each
source file that a document links to. `mkdocs build --strict` checks links and anchors. Pages load nothing from other hosts. Search needs a web
server, such as `python3 -m http.server -d build/docs`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import api_pages
from tidy import files_of, links_of

ROOT = Path(__file__).resolve().parent.parent
HEADERS = "runtime/include/"
DOCUMENT = re.compile(r"(?:README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|docs/.*\.md")
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".c": "c", ".py": "python", ".sh": "sh", ".yaml": "yaml", ".cmake": "cmake", ".json": "json"}
LIST_ITEM = re.compile(r"(?:[-*]|\d+\.) +")


def api_page(header):
    """The page of a public header, or of all of them for muster.h."""
    name = header.removeprefix(f"{HEADERS}muster/").removesuffix(".h")
    return "api/index.md" if name == "muster" else f"api/{name}.md"


def public_headers(files):
    return [name for name in files if name.startswith(f"{HEADERS}muster/") and name.endswith(".h") and "/detail/" not in name and name.count("/") > 3]


def page_of(target, headers):
    """The page that shows a file or folder of the repository."""
    if DOCUMENT.fullmatch(target):
        return target
    if target in headers or target == f"{HEADERS}muster/muster.h":
        return api_page(target)
    return f"{target}/folder.md" if (ROOT / target).is_dir() else f"{target}.md"


def with_links_to_pages(path, text, headers, linked):
    """The document with links that lead to pages; adds to `linked` the other files that need a page."""
    here, end, parts = os.path.dirname(path), 0, []
    for place, target in links_of(text):
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(here, name)) if name else ""
        if name and not DOCUMENT.fullmatch(file):
            linked.add(file)
            target = os.path.relpath(page_of(file, headers), here)
        parts += [text[end:place], target]
        end = place + len(name) + (len(anchor) + 1 if anchor else 0)
    return "".join(parts) + text[end:]


def as_python_markdown(text):
    """GitHub's Markdown as Python-Markdown reads it: a blank line before lists and tables, four spaces before the content of a list item, no
    backslash before a bar in a table's code, and nothing but a title after a block's language."""
    found, inside, was_inside, shift, fence = [], [], False, 0, None  # `inside`: columns where the texts of the open list items begin
    for line in text.splitlines():
        bare, column = line.lstrip(" "), len(line) - len(line.lstrip(" "))
        if fence:
            found.append(" " * max(0, column + shift) + bare if bare else "")
            fence = None if bare == fence else fence
            continue
        before = found[-1].strip() if found else ""
        if bare and (column > 0 or not before or LIST_ITEM.match(bare)):
            inside = [each for each in inside if each <= column]
        depth = len(inside) if column or LIST_ITEM.match(bare) else 0
        item = LIST_ITEM.match(bare)
        if before and ((item and not inside and not LIST_ITEM.match(before) and not was_inside) or (bare.startswith("|") and before[0] != "|")):
            found.append("")
        if item:
            inside.append(column + item.end())
        was_inside = bool(inside) and bool(bare)
        if bare.startswith("|"):
            bare = re.sub(r"`[^`]*`", lambda code: code.group(0).replace("\\|", "|"), bare)
        if bare.startswith("```"):
            fence, shift = re.match("`+", bare).group(0), 4 * depth - column
            words = bare[len(fence):].split()
            title = re.search(r'title="[^"]*"', bare)
            bare = fence + " ".join(words[:1] + ([title.group(0)] if title else []))
        found.append(" " * (4 * depth) + bare if bare else "")
    return "\n".join(found) + "\n"


def contents(index):
    """The table of contents: the sections of docs/index.md with the pages that they name."""
    sections = []
    for line in index.splitlines():
        heading, page = re.match(r"(##+) (.+)", line), re.match(r"(?:\| |- )\[(.+?)\]\(([^)#]+\.md)\)", line)
        if heading and len(heading.group(1)) == 2:
            sections.append({heading.group(2): []})
            into = sections[-1][heading.group(2)]
        elif heading:
            into = []
            list(sections[-1].values())[0].append({heading.group(2): into})
        elif page:
            into.append({page.group(1): os.path.normpath(f"docs/{page.group(2)}")})
    return sections


def api_index(headers):
    lines = ["# C++ API", "", "`#include <muster/muster.h>` has all of it; CMake's target is `Muster::muster`.", ""]
    for folder in dict.fromkeys(name.split("/")[3] for name in headers):
        lines += [f"## {folder}", "", "| header | |", "| --- | --- |"]
        for name in headers:
            if name.split("/")[3] == folder:
                what = api_pages.as_text(api_pages.first_sentence(api_pages.top_comment((ROOT / name).read_text())))
                lines.append(f"| [{name.rsplit('/', 1)[-1]}]({api_page(name).removeprefix('api/')}) | {what} |")
        lines.append("")
    return "\n".join(lines)


def source_page(name, files):
    """A page that shows a source file, or lists a folder."""
    if (ROOT / name).is_dir():
        inside = sorted({each.removeprefix(f"{name}/").split("/")[0] for each in files if each.startswith(f"{name}/")})
        return f"# {name}/\n\n" + "".join(f"- [{each}]({each})\n" if DOCUMENT.fullmatch(f"{name}/{each}") else f"- `{each}`\n" for each in inside)
    return f"# {name}\n\n~~~~~~ {LANGUAGES.get(Path(name).suffix, 'text')}\n{(ROOT / name).read_text()}\n~~~~~~\n"


def pages():
    """{path: text} of all pages."""
    files = files_of(ROOT)
    headers = public_headers(files)
    linked, found = set(), {"api/index.md": api_index(headers)}
    for name in filter(DOCUMENT.fullmatch, files):
        found[name] = as_python_markdown(with_links_to_pages(name, (ROOT / name).read_text(), headers, linked))
    for name in headers:
        found[api_page(name)] = as_python_markdown(api_pages.page_of(name.removeprefix(HEADERS), (ROOT / name).read_text()))
    for name in sorted(linked):
        found.setdefault(page_of(name, headers), source_page(name, files))
    return found


def navigation(found):
    folders = {}
    for name in sorted(name for name in found if name.startswith("api/") and name != "api/index.md"):
        folders.setdefault(name.split("/")[1], []).append({name.rsplit("/", 1)[-1].replace(".md", ".h"): name})
    project = [{"Contributing": "CONTRIBUTING.md"}, {"Changes": "CHANGELOG.md"}, {"Security": "SECURITY.md"}]
    return [{"Muster": [{"Muster": "README.md"}, {"Documents": "docs/index.md"}, *project]}, *contents((ROOT / "docs/index.md").read_text()),
            {"C++ API": [{"C++ API": "api/index.md"}, *({folder: inside} for folder, inside in folders.items())]}]


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    found = pages()
    with tempfile.TemporaryDirectory(prefix="muster-docs-") as scratch:
        for name, text in found.items():
            path = Path(scratch, "docs", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        settings = {"INHERIT": str(ROOT / "tools/mkdocs.yml"), "docs_dir": "docs", "site_dir": os.path.abspath(arguments[0]), "nav": navigation(found)}
        Path(scratch, "mkdocs.yml").write_text(json.dumps(settings))
        # Not --quiet: with that, --strict does not count the warnings.
        built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", f"{scratch}/mkdocs.yml"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False)
    print("".join(f"{line}\n" for line in built.stdout.splitlines() if line and not line.startswith("INFO")), end="")
    print(f"docs_site: {len(found)} pages: " + (f"{arguments[0]}/index.html" if built.returncode == 0 else "FAILED"))
    return built.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
