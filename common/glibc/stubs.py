#!/usr/bin/env python3
"""stubs.py VERSION FOLDER COMPILER...: makes libraries in FOLDER, against which the linker links a program that has to run with glibc VERSION.

A library of glibc has each function in all versions that it ever had. The linker takes the newest, which an older glibc lacks. So these
libraries, which have no code, offer only versions up to VERSION, such as 2.28. They are made from the lists of symbols in this system's glibc.

glibc 2.32 to 2.34 moved the functions of libpthread, libdl and others to libc, with a new version. An older program, or a program with an older
glibc, finds them in the libraries where they were.
"""
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

MOVED_IN = ("GLIBC_2.32", "GLIBC_2.33", "GLIBC_2.34", "GLIBC_2.35")
LIBDL = re.compile(r"dl")
LIBRT = re.compile(r"aio_|lio_listio|mq_|shm_(open|unlink)|timer_|clock_")
LIBUTIL = re.compile(r"(forkpty|openpty|login|logout|logwtmp|login_tty)$")
LIBANL = re.compile(r"getaddrinfo_a|gai_(cancel|error|suspend)$")
OLD_STAT = re.compile(r"__[fl]?xstat(at)?(64)?$")  # no program of today calls them, but common/glibc does
START = "__libc_start_main"  # common/glibc has a function of this name, which calls glibc's
SYMBOL = re.compile(r"\s*\d+: \S+\s+(?P<size>\d+|0x\S+) (?P<kind>FUNC|OBJECT|TLS|IFUNC|NOTYPE)\s+(GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+"
                    r"(?P<section>\d+|ABS) (?P<name>[^@\s]+)(?P<at>@@?)(?P<version>GLIBC_[0-9.]+)$")


class Symbol(NamedTuple):
    version: str
    is_newest: bool
    kind: str
    size: int


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def symbols_of(library):
    """Returns the symbols of this file by name, each in all its versions."""
    found = {}
    for line in output_of(["readelf", "-W", "--dyn-syms", library]).splitlines():
        match = SYMBOL.match(line)
        if match and match["section"] != "ABS":
            symbol = Symbol(match["version"], match["at"] == "@@", match["kind"], int(match["size"], 0))
            found.setdefault(match["name"], []).append(symbol)
    return found


def output_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def old_home(name):
    """Returns the library in which this function of libc was before glibc 2.32."""
    for pattern, library in ((LIBDL, "libdl.so.2"), (LIBRT, "librt.so.1"), (LIBUTIL, "libutil.so.1"), (LIBANL, "libanl.so.1")):
        if pattern.match(name):
            return library
    return "libpthread.so.0"


def choose(most, compiler):
    """Returns the symbols that each library offers: of each name the newest version that is not newer than `most`."""
    chosen = {}
    for library in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"):
        for name, versions in symbols_of(output_of([*compiler, f"-print-file-name={library}"])).items():
            old = [each for each in versions if number(each.version) <= most]
            newest = next((each for each in versions if each.is_newest), None)
            if not old or not (newest or OLD_STAT.match(name)):
                continue
            best = max(old, key=lambda each: number(each.version))
            moved = library == "libc.so.6" and newest and newest != best and newest.version in MOVED_IN and name != START
            chosen.setdefault(old_home(name) if moved else library, {})[name] = best
    for name in chosen["libc.so.6"].keys() & chosen["libm.so.6"].keys():  # ldexp and others are in both
        del chosen["libm.so.6"][name]
    return chosen


def assembly_of(name, symbol):
    size = max(symbol.size, 1)
    label, lines = name, []
    if name == START:  # the program's own function has this name
        label = name + "_of_glibc"
        lines.append(f".symver {label}, {name}@{symbol.version}")
    kind, section, content = {
        "OBJECT": ("object", ".bss", f".balign 16\n{label}: .zero {size}"),
        "TLS": ("tls_object", '.section .tbss,"awT",%nobits', f"{label}: .zero {size}"),
    }.get(symbol.kind, ("function", ".text", f"{label}: .byte 0"))
    return "\n".join([*lines, section, f".globl {label}", f".type {label},%{kind}", content, f".size {label}, . - {label}", ""])


def make_library(folder, library, symbols, compiler):
    versions = {}
    for name, symbol in symbols.items():
        versions.setdefault(symbol.version, []).append(name)
    source, script = folder / f"{library}.s", folder / f"{library}.map"
    source.write_text("".join(assembly_of(name, symbol) for name, symbol in sorted(symbols.items())))
    script.write_text("".join(f"{version} {{ {' '.join(name + ';' for name in sorted(versions[version]))} }};\n"
                              for version in sorted(versions, key=number)))
    subprocess.run([*compiler, "-nostdlib", "-shared", "-Wl,--no-gc-sections", f"-Wl,-soname,{library}", f"-Wl,--version-script={script}",
                    "-o", folder / library, source], check=True)


def main():
    most, folder, compiler = number(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    chosen = choose(most, compiler)
    for library, symbols in chosen.items():
        make_library(folder, library, symbols, compiler)
    # The compiler names -lc and -lm by itself. The linker reads these files instead of the system's. Functions of common/glibc come first.
    moved = " ".join(str(folder / library) for library in chosen if library not in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"))
    static = output_of([*compiler, "-print-file-name=libc_nonshared.a"])
    own = folder / "libmuster_glibc.a"
    (folder / "libc.so").write_text(
        f"GROUP ( {own} AS_NEEDED ( {moved} ) {folder}/libc.so.6 {static} AS_NEEDED ( {folder}/ld-linux-x86-64.so.2 ) )\n")
    (folder / "libm.so").write_text(f"GROUP ( {own} AS_NEEDED ( {folder}/libm.so.6 ) )\n")
    for library in ("libdl.a", "libpthread.a", "librt.a"):  # empty archives: their functions are found through libc.so
        (folder / library).write_bytes(b"!<arch>\n")


main()
