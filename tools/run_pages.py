#!/usr/bin/env python3
"""Runs the shell blocks of documents as a reader would: in order, in one shell, in an empty folder.

    tools/run_pages.py --bin DIR [--where WHERE] [--in DIR] [--files FOLDER] [--replace OLD=NEW] [--show] PAGE|FOLDER...
    tools/run_pages.py --norun PAGE|FOLDER...

A block runs if its info string says so. The word after `run` names what the block needs apart from the programs in DIR:

    ```sh run           nothing                                      (test `pages`)
    ```sh run torch     an installed Muster with its runtime, a compiler,
                        and a python3 that has torch                 (test `installed_package`)
    ```sh run hosts     hosts h0, h1, ... and a shared directory     (tests `clusters_page_test`, `hosts_pages`, `three_hosts_page`)
    ```sh run docker    a Docker engine with images                  (test `docker_page_test`)
    ```sh run wheel     pip of a virtual environment, and a ./dev whose package is ready     (test `wheel`)
    ```sh norun WHY     no test runs this block; --norun lists these blocks

Every other `sh` block is an error of tools/tidy.py, unless it becomes a file.

Only blocks of one WHERE run; without --where, those that need nothing. Two more kinds of blocks take part:

    ```python title="train.py"    is written to that file when the run reaches it
    ```text output                each line must be in the output of the blocks before it; `...` stands for any text

Pages run at the same time, each with its own HOME. With --in they run in that folder with its HOME, one after the other. Prints a line for
each page, with --show the output too. Exits with 1 if a command failed or a line of output is missing, with 77 if no page has a block to run.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

NEEDS = ("", "torch", "hosts", "docker", "wheel")
FENCE = re.compile(r"( *)(`{3,})([^`]*)$")
MARK = "@@ run_pages line "


@dataclass
class Block:
    line: int  # of the block's first line
    info: str
    text: str


def blocks_of(markdown):
    """The fenced blocks of a document."""
    found, fence, lines = [], None, markdown.splitlines()
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if fence is None and match:
            fence = (number, match.group(2), match.group(3).strip())
        elif fence is not None and line.strip() == fence[1]:
            found.append(Block(fence[0] + 1, fence[2], textwrap.dedent("\n".join(lines[fence[0]:number - 1]) + "\n")))
            fence = None
    return found


def need_of(block):
    """The need of a shell block, "" for none; None for a block that does not run."""
    words = block.info.split()
    if words[:1] not in (["sh"], ["bash"]) or words[1:2] != ["run"]:
        return None
    need = " ".join(words[2:])
    if need not in NEEDS:
        raise ValueError(f"{block.line - 1}: `{block.info}`: after `run` comes one of {', '.join(filter(None, NEEDS))}, or nothing")
    return need


def without_a_test(text):
    """(blocks that say why they do not run, shell blocks without a mark)."""
    norun, unmarked = [], []
    for block in blocks_of(text):
        words = block.info.split()
        if words[:1] not in (["sh"], ["bash"]) or words[1:2] == ["run"] or "title=" in block.info:
            continue
        (norun if words[1:2] == ["norun"] and words[2:] else unmarked).append(block)
    return norun, unmarked


def script_of(blocks, where):
    """One shell script that runs the blocks; "" if there is none to run."""
    lines, runs = ["set -euo pipefail"], False
    for number, block in enumerate(blocks):
        title = re.search(r'\btitle="([^"]+)"', block.info)
        if need_of(block) == where:
            lines += [f"printf '\\n{MARK}{block.line}\\n'", block.text]
            runs = True
        elif title:
            lines += [f"cat >{shlex.quote(title.group(1))} <<'END OF BLOCK {number}'", f"{block.text}END OF BLOCK {number}"]
    return "\n".join(lines) + "\n" if runs else ""


def missing_lines(blocks, where, output):
    """(line number, text) of the lines in `text output` blocks that the output lacks. Such a block belongs to the shell block before it."""
    shown = None
    for block in blocks:
        need = need_of(block)
        shown = shown if need is None else need
        if block.info != "text output" or shown != where:
            continue
        for number, line in enumerate(block.text.splitlines(), block.line):
            pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
            if not re.search(rf"^[ \t]*{pattern}[ \t]*$", output, flags=re.M):
                yield number, line.strip()


def environment_of(options, home):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("MUSTER_JOB", "MUSTER_LOG", "PET_", "XDG_STATE", "TORCHELASTIC")) and name not in ("TMPDIR", "RANK", "WORLD_SIZE")}
    return kept | {"HOME": home, "PATH": f"{options.bin}:{os.environ['PATH']}"}


def run_script(script, folder, environment, seconds):
    """(exit status, output). Kills the rest of the shell's process group."""
    path = Path(folder, ".run_pages.sh")
    path.write_text(script)
    with tempfile.TemporaryFile() as output:
        shell = subprocess.Popen(["bash", str(path)], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = shell.wait(seconds)
        except subprocess.TimeoutExpired:
            status = f"nothing: it ran for more than {seconds} s"
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")


def complaints_about(page, blocks, where, status, output):
    """The errors, one text each; the last block that started is the one that failed."""
    if status != 0:
        started = output.rpartition(MARK)[2]
        line, _, said = started.partition("\n")
        yield f"{page}:{line}: ended with {status}; the block printed:\n{textwrap.indent(said, '  ')}"
        return
    for line, text in missing_lines(blocks, where, output):
        yield f"{page}:{line}: not in the output: {text}\n{textwrap.indent(output, '  ')}"


def run_page(page, options):
    """(number of blocks, complaints, output); (0, [], "") if the page has no block to run."""
    text = page.read_text()
    for old, new in options.replace:
        text = text.replace(old, new)
    blocks = blocks_of(text)
    try:
        script = script_of(blocks, options.where)
    except ValueError as error:
        return 1, [f"{page}:{error}"], ""
    if not script:
        return 0, [], ""
    folder = options.folder or tempfile.mkdtemp(prefix="run_pages.")
    try:
        if options.files:
            shutil.copytree(options.files, folder, dirs_exist_ok=True)
        status, output = run_script(script, folder, environment_of(options, os.environ["HOME"] if options.folder else folder), options.seconds)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return script.count(MARK), list(complaints_about(page, blocks, options.where, status, output)), output


def pages_of(places):
    for place in map(Path, places):
        yield from sorted(place.rglob("*.md")) if place.is_dir() else [place]


def pair(text):
    old, equals, new = text.partition("=")
    if not (old and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not OLD=NEW")
    return old, new


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=os.path.abspath, help="folder of launch, put before PATH")
    parser.add_argument("--where", default="", choices=NEEDS, help="run the blocks that need this")
    parser.add_argument("--in", dest="folder", help="run here, with the HOME of this process")
    parser.add_argument("--files", metavar="FOLDER", help="copy its files into the folder first: the reader's own programs")
    parser.add_argument("--norun", action="store_true", help="list the blocks that no test runs, and why")
    parser.add_argument("--replace", action="append", default=[], type=pair, metavar="OLD=NEW", help="in the page's text")
    parser.add_argument("--seconds", type=int, default=120, help="limit for a page (default 120)")
    parser.add_argument("--show", action="store_true", help="print the blocks' output")
    parser.add_argument("pages", nargs="+", metavar="PAGE|FOLDER")
    options = parser.parse_args(arguments)
    pages = list(pages_of(options.pages))
    if options.norun:
        for page in pages:
            for block in without_a_test(page.read_text())[0]:
                print(f"{page}:{block.line - 1}: {block.info.partition('norun ')[2]}")
        return 0
    if not options.bin:
        parser.error("--bin is missing")
    ran = failed = 0
    with concurrent.futures.ThreadPoolExecutor(1 if options.folder else 4) as pool:
        for page, (blocks, complaints, output) in zip(pages, pool.map(lambda page: run_page(page, options), pages)):
            if not blocks:
                continue
            ran += 1
            failed += bool(complaints)
            print(f"{page}: {blocks} blocks: {'FAILED' if complaints else 'passed'}")
            print("".join(f"{text}\n" for text in complaints) + (output if options.show else ""), end="", flush=True)
    if not ran:
        print("run_pages: no page has a block to run")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
