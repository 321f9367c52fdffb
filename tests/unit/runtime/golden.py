# Values that another library computed, one a line, and are held beside the script that computes them.
import sys
from pathlib import Path


def main(script, library, given, close):
    """Prints the lines; with --check: exit code 0 if the held ones are close to them."""
    if sys.argv[1:] != ["--check"]:
        print("\n".join(given))
        return 0
    path = Path(script).with_suffix(".txt")
    held = path.read_text().splitlines()
    different = [pair for pair in zip(held, given) if not close(*pair)]
    for pair in different[:5]:
        print("of {}, and of this {}:\n  {}\n  {}".format(path.name, library, *pair))
    return 0 if not different and len(held) == len(given) else 1
