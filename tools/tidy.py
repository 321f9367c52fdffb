#!/usr/bin/env python3
"""The rules of this repository that a program can check; CONTRIBUTING.md says why they are there.

    tools/tidy.py [ROOT]

Checks who may include whom, sizes, header comments, file names, relative links in documents, that the index names all of them, words and calls that may
not stay, and that the patches of tests/mutants apply. Prints `file:line: error: ...` or `... warning: ...`; exits with 1 if there was an error.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import run_pages

import plain_english
from cpp_source import blank, code_of, functions_of, includes_of

# The folders that a folder may include: the first one that matches a file decides. Folders that are not named may include anything.
COMMON = ["common/base", "common/wire", "common/net", "common/checkpoint"]
MAY_INCLUDE = {
    "common/base": ["common/base"],
    "common/wire": ["common/base", "common/wire"],
    "common/net": ["common/base", "common/wire", "common/net"],
    "common/checkpoint": ["common/base", "common/wire", "common/checkpoint"],
    "common/pipeline": ["common/base", "common/pipeline"],
    "launcher/core/text": ["common/base", "launcher/core/text"],
    "launcher/core/settings": ["common/base", "common/wire", "launcher/core/text", "launcher/core/settings"],
    "launcher/core/verdict": ["common/base", "common/wire", "launcher/core/text", "launcher/core/verdict"],
    "launcher/core/fleet": ["common/base", "common/wire", *(f"launcher/core/{folder}" for folder in ("text", "settings", "fleet"))],
    "launcher/core/job": ["common/base", "common/wire", *(f"launcher/core/{folder}" for folder in ("text", "settings", "verdict", "fleet", "job"))],
    "launcher/core/sweep": ["common/base", "common/wire", "launcher/core/text", "launcher/core/settings", "launcher/core/sweep"],
    "launcher/core/journal": ["common/base", "common/wire", "launcher/core"],
    "launcher/core/view": ["common/base", "common/wire", "launcher/core"],
    "launcher/core": ["common/base", "common/wire", "launcher/core"],
    "launcher/io": [*COMMON, "launcher/core", "launcher/io"],
    "launcher": [*COMMON, "common/pipeline", "launcher"],
    "agent/core": ["common/base", "common/wire", "agent/core"],
    "agent": [*COMMON, "agent"],
    "runtime": ["common/base", "common/wire", "common/checkpoint", "common/pipeline", "runtime"],
    "examples": ["runtime/include", "examples"],
}
# The runtime's floors, each with the floors that its arrows lead to; it may use those and whatever they may use. A floor is runtime/NAME and
# runtime/include/muster/NAME.
FLOORS = {"rank": [], "comm": ["rank"], "data": ["comm"], "checkpoint": ["data"], "model": ["comm"], "train": ["checkpoint", "model"],
          "parallel": ["train"], "pipeline": ["parallel"], "vision": ["data", "model"]}


def reached(floor):
    """The floor and all floors that it may use."""
    return {floor}.union(*map(reached, FLOORS[floor]))


HEADERS = "runtime/include/muster"
SHARED = [*(folder for folder in MAY_INCLUDE["runtime"] if folder != "runtime"), "runtime/torch_versions.h"]
MAY_INCLUDE |= {f"runtime/{floor}": SHARED + [f"{folder}/{each}" for each in sorted(reached(floor)) for folder in ("runtime", HEADERS)] for floor in FLOORS}
MAY_INCLUDE |= {f"{HEADERS}/{floor}": [f"{HEADERS}/{each}" for each in sorted(reached(floor))] for floor in FLOORS}
# Within the floor data: formats know nothing of the loader, and the order of samples knows neither.
MAY_INCLUDE["runtime/data/order"] = [folder for folder in MAY_INCLUDE["runtime/data"] if folder != "runtime/data"] + ["runtime/data/order", "runtime/data/argument.h"]
MAY_INCLUDE["runtime/data/datasets"] = [*MAY_INCLUDE["runtime/data/order"], "runtime/data/datasets"]
MAY_INCLUDE[HEADERS] = [HEADERS]
ASIO = re.compile(r"boost/asio|boost/beast|asio\.hpp|common/net/")
TORCH = re.compile(r"(torch|ATen|c10|caffe2|gloo)/")
SHELL_ONLY = re.compile(
    r"(thread|mutex|shared_mutex|condition_variable|future|stop_token|unistd\.h|pthread\.h|ctime|time\.h|sys/time\.h)$"
)
# Libraries that a folder may not name, with what to say about it.
FORBIDDEN_LIBRARIES = {
    "common/base": [(ASIO, "only common/net and io folders use Asio"), (TORCH, "common does not know torch")],
    "common/wire": [(ASIO, "only common/net and io folders use Asio"), (TORCH, "common does not know torch")],
    "common/checkpoint": [(ASIO, "only common/net and io folders use Asio"), (TORCH, "common does not know torch")],
    "common/pipeline": [(ASIO, "only common/net and io folders use Asio"), (TORCH, "common does not know torch")],
    "common": [(TORCH, "common does not know torch")],
    "launcher/core": [(TORCH, "the launcher starts in milliseconds: no torch"), (ASIO, "decisions do no input or output"), (SHELL_ONLY, "decisions have no threads, system calls or clock")],
    "agent/core": [(TORCH, "the agent starts in milliseconds: no torch"), (ASIO, "decisions do no input or output"), (SHELL_ONLY, "decisions have no threads, system calls or clock")],
    "launcher": [(TORCH, "the launcher starts in milliseconds: no torch")],
    "agent": [(TORCH, "the agent starts in milliseconds: no torch")],
    "runtime/include": [(ASIO, "public headers do not show Asio")],
}
# These perform decisions over interfaces, so that the simulator can run them: neither they nor an interface may name what is behind one.
PERFORMERS = (
    "agent/io/agent", "agent/io/link", "agent/io/workers/processes", "agent/io/health/vitals", "agent/io/output/logs", "agent/io/store/store_host",
    "launcher/io/input", "launcher/io/launcher", "launcher/io/lineage", "launcher/io/fleet/bootstrap", "launcher/io/fleet/session", "launcher/io/view/view",
)
OUTSIDE = re.compile(r"sys/|linux/|(unistd|fcntl|poll|dirent)\.h$|(thread|mutex|filesystem|fstream)$|boost/|common/net/(?!channel\.h|time\.h)|.*/local_")
CLOCK_READING = re.compile(r"\b(?:(?:Clock|\w+_clock)::now|clock_gettime|gettimeofday)\s*\(|\btime\s*\(\s*(?:NULL|nullptr|0|&)")
SLEEP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")
# Waits that end only when somebody else does something. In the agent and the launcher's shell one thread does everything.
ENDLESS_WAIT = re.compile(r"\bget_future\(\)\s*\.(?:get|wait)\(\)|\.wait\(\s*\w*lock\b|(?:\.|->)join\(\)|\bpoll\([^;]*,\s*-1\)"
                          r"|\bwaitpid\([^;]*,\s*0\)|(?<!SYS_)\bwaitid\((?![^;]*WNOHANG)")
ALLOWED_WAITS = {
    "agent/io/health/gpu_readings.cc": "a thread of its own waits for work",
    "agent/io/health/gpu_memory_watch.cc": "a thread of its own waits for work",
    "agent/io/workers/memory_exchange.cc": "the thread was told to end, and waits for nothing",
}
INDEX = "docs/index.md"
MOST_NORUN = 20  # blocks of documents that run in no test; this number only shrinks
# The one file that asks which version of LibTorch it is compiled with.
TORCH_VERSIONS = "runtime/torch_versions.h"
TORCH_VERSION = re.compile(r"\bTORCH_(?:ABI_)?VERSION(?:_\w+)?\b")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

# Sizes: (warn above, fail above). A ratchet: what is over the second number is listed with its reason, or made smaller.
HEADER_LINES, SOURCE_LINES, FUNCTION_LINES, PARAMETERS = (150, 300), (300, 600), (40, 70), (4, 6)
# "path" or "path:function" -> why it may be over the limit.
ALLOWED_SIZES: dict[str, str] = {
    f"agent/io/mpi/pmix_module.cc:{name}": "the PMIx library says what it is called with" for name in ("on_abort", "on_event", "on_fence", "on_spawn")
} | {"tests/unit/agent/pmix_module_test.cc:stay_in_the_librarys_thread": "the PMIx library says what it is called with",
     "runtime/model/sync_batch_norm.cc:batch_norm_of_all": "an operator of ATen has these arguments"}

# How many places plain_english.py finds in a file. The numbers can only shrink: a file that has fewer is an error too, until its number is lowered.
ENGLISH_ALLOWED = "tools/english_allowed.txt"
ENGLISH_TEXTS = (".h", ".cc", ".py", ".md", ".sh", ".cmake", "CMakeLists.txt")

SOURCES = (".h", ".cc")
TEXTS = (*SOURCES, ".py", ".md", ".cmake", ".txt", ".sh", ".yaml", ".yml", ".json", ".in", "")


class Report:
    def __init__(self):
        self.errors, self.warnings = [], []
        self.allowed_used = set()

    def error(self, path, line, text):
        self.errors.append(f"{path}:{line}: error: {text}")

    def warning(self, path, line, text):
        self.warnings.append(f"{path}:{line}: warning: {text}")


def files_of(root):
    """Paths of the repository's files, relative to `root`: what git tracks or would; without git, all but hidden ones and build/."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=False
    ) if (root / ".git").exists() else None
    if listed and listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        names = []
        for folder, folders, found in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in ("build", "__pycache__")]
            names += [str((Path(folder) / name).relative_to(root)) for name in found]
    return sorted(name for name in set(names) if (root / name).is_file())


def folder_rule(table, path):
    """The entry of the longest folder in `table` that holds `path`, or None."""
    holding = [folder for folder in table if path.startswith(folder + "/")]
    return table[max(holding, key=len)] if holding else None


def project_file(include, files):
    """The file of this repository that an include names, or None if it is not one of ours."""
    return next((name for name in (include, "runtime/include/" + include) if name in files), None)


def check_includes(path, text, files, report):
    allowed = folder_rule(MAY_INCLUDE, path)
    forbidden = folder_rule(FORBIDDEN_LIBRARIES, path) or []
    performs = path.rsplit(".", 1)[0] in PERFORMERS
    for line, included in includes_of(text):
        target = project_file(included, files)
        if not target and str(Path(path).parent / included) in files:
            report.error(path, line, f"names {included} from its own folder: name it from the root")
        if target and allowed is not None and not any(target == folder or target.startswith(folder + "/") for folder in allowed):
            report.error(path, line, f"may not include {included}: only {', '.join(allowed)}")
        for pattern, reason in forbidden:
            if pattern.match(included):
                report.error(path, line, f"may not include {included}: {reason}")
        if performs and OUTSIDE.match(included):
            report.error(path, line, f"may not include {included}: a performer knows the outside by interfaces only")
    if performs or ("/core/" in path and path.split("/")[0] in ("launcher", "agent")):
        for line in lines_with(CLOCK_READING, code_of(text)):
            report.error(path, line, "reads a clock: decisions are given the time")


def lines_with(pattern, text):
    return [text.count("\n", 0, match.start()) + 1 for match in pattern.finditer(text)]


def check_size(where, what, count, limits, report):
    path, line, name = where
    key = f"{path}:{name}" if name else path
    label = f"{name}: " if name else ""
    if count > limits[1] and key in ALLOWED_SIZES:
        report.allowed_used.add(key)
    elif count > limits[1]:
        report.error(path, line, f"{label}{count} {what}, at most {limits[1]}")
    elif count > limits[0]:
        report.warning(path, line, f"{label}{count} {what}, better at most {limits[0]}")


def check_sizes(path, text, report):
    lines = text.count("\n")
    check_size((path, 1, ""), "lines", lines, HEADER_LINES if path.endswith(".h") else SOURCE_LINES, report)
    for function in functions_of(text):
        where = (path, function.line, function.name)
        check_size(where, "lines", function.line_count, FUNCTION_LINES, report)
        if not function.name.startswith("__"):  # the C library chose the parameters of such a function
            check_size(where, "parameters", function.parameter_count, PARAMETERS, report)


def check_header(path, text, report):
    if "#pragma once" not in text:
        report.error(path, 1, "no #pragma once")
    comment = re.match(r"(?://[^\n]*\n)*", text).group(0)
    if not comment:
        report.error(path, 1, "a header begins with a comment: what it is, and what it does not do")
    elif not path.startswith("tests/") and not 3 <= comment.count("\n") <= 10:
        report.warning(path, 1, f"the comment at the top has {comment.count(chr(10))} lines, better 3 to 10")


def heading_anchors(markdown):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+?) *#*$", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(markdown):
    """(place, text) of the target of each link of a document that leads to a file of this repository, or to a heading."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", blank, markdown, flags=re.M | re.S)
    for match in re.finditer(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", prose, flags=re.M):
        group = 1 if match.group(1) else 2
        if not re.match(r"[a-z]+:", match.group(group)):
            yield match.start(group), match.group(group)


def check_links(root, path, text, report):
    for place, target in links_of(text):
        line = text.count("\n", 0, place) + 1
        name, _, anchor = target.partition("#")
        linked = (root / path).parent / name if name else root / path
        if not linked.exists():
            report.error(path, line, f"dead link: {target}")
        elif anchor and linked.suffix == ".md" and anchor not in heading_anchors(linked.read_text()):
            report.error(path, line, f"dead link: no heading for {target}")


def check_blocks(path, text, report):
    """Every shell block of a document runs in a test, or says why none runs it."""
    norun, unmarked = run_pages.without_a_test(text)
    for block in unmarked:
        report.error(path, block.line - 1, "no test runs this block: write `sh run`, or `sh norun WHY` (tools/run_pages.py), or `text` if it is no command")
    return len(norun)


def check_index(root, files, report):
    """Every document has a line in the index, from which the site's table of contents is made."""
    if INDEX not in files:
        return
    named = {os.path.normpath(f"docs/{target.partition('#')[0]}") for _, target in links_of((root / INDEX).read_text())}
    for path in files:
        if path.startswith("docs/") and path.endswith(".md") and path != INDEX and path not in named:
            report.error(INDEX, 1, f"does not name {path}: add a line that says for whom it is")


def check_words(path, text, report):
    if not path.startswith("tools/"):
        for line in lines_with(UNFINISHED, text):
            report.error(path, line, "unfinished: finish it, or write an issue")
    if path.startswith("tests/unit/") and path.endswith(SOURCES):
        for line in lines_with(SLEEP, code_of(text)):
            report.error(path, line, "a unit test does not sleep: wait for the condition, or pass the time")


def check_waits(path, text, report):
    if path.startswith(("agent/", "launcher/io/")) and path not in ALLOWED_WAITS:
        for line in lines_with(ENDLESS_WAIT, code_of(text)):
            report.error(path, line, "a wait without an end: give it a limit, or list the file in ALLOWED_WAITS with a reason")


def allowed_english(root):
    listed = root / ENGLISH_ALLOWED
    lines = listed.read_text().splitlines() if listed.exists() else []
    return {path: int(count) for count, path in (line.split(maxsplit=1) for line in lines if not line.startswith("#"))}


def check_english(path, text, allowed, report):
    found = list(plain_english.problems(path, text))
    if len(found) > allowed:
        for line, message in found:
            report.error(path, line, message)
    elif len(found) < allowed:
        report.error(path, 1, f"has {len(found)} places that plain_english.py finds, and {ENGLISH_ALLOWED} allows {allowed}: lower the number there")


def check_torch_version(path, text, report):
    if path != TORCH_VERSIONS:
        for line in lines_with(TORCH_VERSION, code_of(text)):
            report.error(path, line, f"asks for LibTorch's version: differences between versions are in {TORCH_VERSIONS}")


def check_name(path, report):
    if path.endswith((".h", ".cc", ".py")) and not re.fullmatch(r"[a-z0-9_]+\.[a-z]+", path.rsplit("/", 1)[-1]):
        report.error(path, 1, "files are named in snake_case")


def check_patch(root, path, report):
    """A planted bug (tools/mutants) has to follow the code around it."""
    tried = subprocess.run(["git", "apply", "--check", path], cwd=root, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        report.error(path, 1, f"does not apply any more: {tried.stderr.strip().splitlines()[0]}")


def check(root):
    report = Report()
    files, norun = files_of(root), 0
    allowed = allowed_english(root)
    for path in sorted(allowed.keys() - set(files)):
        report.error(ENGLISH_ALLOWED, 1, f"lists {path}, which does not exist")
    for path in files:
        check_name(path, report)
        if path.startswith("tests/mutants/") and path.endswith(".patch"):
            check_patch(root, path, report)
        if Path(path).suffix not in TEXTS:
            continue
        text = (root / path).read_text(errors="replace")
        check_words(path, text, report)
        if path.endswith(ENGLISH_TEXTS):
            check_english(path, text, allowed.get(path, 0), report)
        if path.endswith(SOURCES):
            check_waits(path, text, report)
            check_includes(path, text, set(files), report)
            check_sizes(path, text, report)
            check_torch_version(path, text, report)
        if path.endswith(".h"):
            check_header(path, text, report)
        if path.endswith(".md"):
            check_links(root, path, text, report)
            if path in ("README.md", "CONTRIBUTING.md") or path.startswith("docs/"):
                norun += check_blocks(path, text, report)
    if norun > MOST_NORUN:
        report.error("tools/tidy.py", 1, f"{norun} blocks of documents run in no test, {MOST_NORUN} are allowed: let a test run them (tools/run_pages.py --norun)")
    check_index(root, files, report)
    for key in sorted(key for key in ALLOWED_SIZES.keys() - report.allowed_used if key.split(":")[0] in files):
        report.error(key, 1, "is listed in ALLOWED_SIZES and no longer over a limit: take it out")
    return files, report


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    files, report = check(root)
    print("".join(line + "\n" for line in report.warnings + report.errors), end="")
    print(f"tidy: {len(files)} files, {len(report.errors)} errors, {len(report.warnings)} warnings")
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
