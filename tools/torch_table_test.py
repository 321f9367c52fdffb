#!/usr/bin/env python3
"""Tests how torch_table.py reads ctest's results."""

import tempfile
import unittest
from pathlib import Path

import torch_table

RESULTS = """<testsuite>
<testcase name="group_test" status="run"/>
<testcase name="job_test" status="fail"><failure message="Failed"/></testcase>
<testcase name="gpu_loader_test" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="shm_test" status="notrun"><skipped message="Unable to find executable"/></testcase>
<testcase name="ddp_parity_test" status="run"/>
<testcase name="store_contract" status="run"/>
</testsuite>"""


class TorchTable(unittest.TestCase):
    def test_a_test_that_skips_itself_does_not_count_and_one_that_cannot_start_has_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results.xml")
            results.write_text(RESULTS)
            counts, failed = torch_table.count_of([results])
        self.assertEqual(counts, {"tests": [1, 3], "parity": [1, 1], "Python clients": [1, 1]})
        self.assertEqual(failed, ["job_test", "shm_test"])

    def test_a_row_passes_that_ran_tests_of_which_none_failed(self):
        ran = {"tests": [2, 2], "parity": [0, 0], "Python clients": [0, 0]}
        nothing = {"tests": [0, 0], "parity": [0, 0], "Python clients": [0, 0]}
        self.assertTrue(torch_table.passed({"built": True, "failed": [], "counts": ran}))
        self.assertFalse(torch_table.passed({"built": True, "failed": ["a"], "counts": ran}))
        self.assertFalse(torch_table.passed({"built": True, "failed": [], "counts": nothing}))
        self.assertFalse(torch_table.passed({"built": False, "failed": []}))


if __name__ == "__main__":
    unittest.main()
