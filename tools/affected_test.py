#!/usr/bin/env python3
"""Tests which targets affected.py finds, with made-up answers of CMake's file API."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import affected

TARGETS = {
    "base": {"name": "base", "paths": {"build": "common"}, "sources": [{"path": "common/base.cc"}]},
    "launch": {"name": "launch", "paths": {"build": "launcher"}, "dependencies": [{"id": "base"}], "artifacts": [{"path": "bin/launch"}]},
    "page_test": {"name": "page_test", "paths": {"build": "tests"}, "artifacts": [{"path": "tests/page_test"}],
                  "compileGroups": [{"defines": [{"define": f'PAGE="{affected.ROOT}/docs/page.md"'}]}]},
    "other_test": {"name": "other_test", "paths": {"build": "tests"}, "artifacts": [{"path": "tests/other_test"}]},
}


def reached(changed, objects=()):
    """The programs that are affected if the files `changed` differ, and the compiler read one of them for `objects`."""
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder).resolve()
        replies = build / ".cmake/api/v1/reply"
        replies.mkdir(parents=True)
        for name, target in TARGETS.items():
            (replies / f"{name}.json").write_text(json.dumps(target))
        model = {"configurations": [{"targets": [{"id": name, "jsonFile": f"{name}.json"} for name in TARGETS]}]}
        (replies / "codemodel-v2-1.json").write_text(json.dumps(model))
        with mock.patch.object(affected, "objects_made_from", return_value=set(objects)), \
                mock.patch.object(affected, "inputs_of", return_value=set()):
            programs = affected.reached_targets(build, {affected.ROOT / name for name in changed}, set())
        return {str(program.relative_to(build)) for program in programs}


class Affected(unittest.TestCase):
    def test_a_source_reaches_what_depends_on_its_target(self):
        self.assertEqual(reached(["common/base.cc"]), {"bin/launch"})

    def test_a_header_reaches_the_targets_whose_objects_read_it(self):
        self.assertEqual(reached(["common/base.h"], ["common/CMakeFiles/base.dir/base.cc.o"]), {"bin/launch"})
        self.assertEqual(reached(["common/none.h"]), set())

    def test_a_document_reaches_the_test_that_is_compiled_with_its_name(self):
        self.assertEqual(reached(["docs/page.md"]), {"tests/page_test"})

    def test_how_things_are_built_is_known_by_the_names_of_files(self):
        for name in ("dev", "CMakePresets.json", "runtime/CMakeLists.txt", "cmake/install.cmake"):
            self.assertTrue(affected.BUILD_FILES.fullmatch(name), name)
        self.assertFalse(affected.BUILD_FILES.fullmatch("docs/dev.md"))


if __name__ == "__main__":
    unittest.main()
