#!/usr/bin/env python3
"""Tests what tools/run_pages.py says about small pages."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import run_pages

FENCE = "```"


def block(info, text):
    return f"{FENCE}{info}\n{text}\n{FENCE}\n"


def run(page, *arguments):
    """(exit code, what is printed) for a page with this text."""
    with tempfile.TemporaryDirectory(prefix="muster-pages-") as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        Path(folder, "page.md").write_text(page)
        code = run_pages.main(["--bin", folder, *arguments, folder])
    return code, said.getvalue()


class RunPages(unittest.TestCase):
    def test_blocks_run_in_one_shell_in_an_empty_home(self):
        page = block("sh run", "test -z \"$(ls)\"\nmkdir -p a; cd a; export B=c") + block("sh run", 'echo "$B" in ${PWD#"$HOME"/}')
        code, said = run(page, "--show")
        self.assertEqual(code, 0, said)
        self.assertIn("page.md: 2 blocks: passed", said)
        self.assertIn("c in a\n", said)

    def test_blocks_without_the_word_do_not_run(self):
        code, said = run(block("sh", "false") + block("python", "1") + block("sh run torch", "false"))
        self.assertEqual((code, said), (77, "run_pages: no page has a block to run\n"))

    def test_blocks_of_the_need_that_is_asked_for_run(self):
        code, said = run(block("sh run", "false") + block("sh run torch", "echo yes"), "--where", "torch", "--show")
        self.assertEqual(code, 0, said)
        self.assertIn("yes\n", said)

    def test_output_of_blocks_that_do_not_run_is_not_expected(self):
        page = block("sh run", "echo one") + block("text output", "one") + block("sh run torch", "echo two") + block("text output", "two")
        for need in ((), ("--where", "torch")):
            code, said = run(page, *need)
            self.assertEqual(code, 0, said)

    def test_a_title_names_a_file_that_the_block_becomes(self):
        page = block('python title="a b.py"', "print('$HOME', \"it's\")") + block("sh run", "python3 'a b.py'") + block("text output", "$HOME it's")
        code, said = run(page)
        self.assertEqual(code, 0, said)

    def test_a_block_that_fails_is_named_by_its_first_line(self):
        code, said = run("# A\n\n" + block("sh run", "true") + block("sh run", "echo here\nfalse | true") + block("sh run", "echo never"))
        self.assertEqual(code, 1)
        self.assertIn("page.md:7: ended with 1; the block printed:\n  here\n", said)
        self.assertNotIn("never", said)

    def test_a_line_of_output_that_is_missing_is_named(self):
        page = block("sh run", "echo took 3 s") + block("text output", "took ... s") + block("text output", "took ... m")
        code, said = run(page)
        self.assertEqual(code, 1)
        self.assertIn("page.md:8: not in the output: took ... m", said)
        self.assertNotIn("took ... s\n", said)

    def test_a_block_in_a_list_is_found(self):
        code, said = run("1. One\n\n   ```sh run\n   if true; then\n     echo two\n   fi\n   ```\n", "--show")
        self.assertEqual(code, 0, said)
        self.assertIn("two\n", said)

    def test_a_page_that_runs_for_too_long_is_stopped(self):
        code, said = run(block("sh run", "echo before; sleep 60"), "--seconds", "1")
        self.assertEqual(code, 1)
        self.assertIn("ran for more than 1 s; the block printed:\n  before\n", said)

    def test_an_unknown_need_is_an_error(self):
        code, said = run(block("sh run moon", "true"))
        self.assertEqual(code, 1)
        self.assertIn("page.md:1: `sh run moon`: after `run` comes one of torch, hosts, docker, wheel, or nothing", said)

    def test_blocks_that_never_run_are_listed_with_their_reason(self):
        code, said = run(block("sh norun needs a moon", "false") + block("sh run", "true"), "--norun")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"^\S+page.md:1: needs a moon\n$")

    def test_the_readers_own_files_are_there(self):
        with tempfile.TemporaryDirectory(prefix="muster-files-") as files:
            Path(files, "train").write_text("trains\n")
            code, said = run(block("sh run", "cat train") + block("text output", "trains"), "--files", files)
        self.assertEqual(code, 0, said)

    def test_text_can_be_replaced(self):
        code, said = run(block("sh run", "echo /shared/x"), "--replace", "/shared/=/here/", "--show")
        self.assertEqual(code, 0, said)
        self.assertIn("/here/x\n", said)


if __name__ == "__main__":
    unittest.main()
