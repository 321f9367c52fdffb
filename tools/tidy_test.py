#!/usr/bin/env python3
"""Small trees that break one rule of tools/tidy.py each, and what it must say about them."""

import tempfile
import unittest
from pathlib import Path

import tidy
from cpp_source import functions_of, includes_of

HEADER = "// A small thing.\n//\n// It does nothing else.\n#pragma once\n"


def tree(**files):
    """check() on a tree with these files; a `__` in a name is a slash, `_dot_` is a dot."""
    with tempfile.TemporaryDirectory(prefix="muster-tidy-") as folder:
        root = Path(folder)
        for name, text in files.items():
            path = root / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tidy.check(root)[1]


class Tidy(unittest.TestCase):
    def assert_error(self, report, *parts):
        self.assertEqual(len(report.errors), 1, report.errors)
        for part in parts:
            self.assertIn(part, report.errors[0])

    def assert_clean(self, report):
        self.assertEqual(report.errors + report.warnings, [])


class Includes(Tidy):
    LAYERS = {
        "common__base__a_dot_h": HEADER,
        "common__wire__a_dot_h": HEADER + '#include "common/base/a.h"\n',
        "common__net__a_dot_h": HEADER + '#include "common/wire/a.h"\n#include <boost/asio.hpp>\n',
        "launcher__core__a_dot_h": HEADER + '#include "common/wire/a.h"\n',
        "launcher__io__a_dot_h": HEADER + '#include "launcher/core/a.h"\n#include "common/net/a.h"\n#include <thread>\n',
        "launcher__main_dot_cc": '#include "launcher/io/a.h"\n',
        "agent__core__a_dot_h": HEADER + '#include "common/base/a.h"\n',
        "runtime__include__muster__comm__a_dot_h": HEADER + "#include <torch/torch.h>\n",
        "runtime__include__muster__data__a_dot_h": HEADER + "#include <muster/comm/a.h>\n",
        "runtime__include__muster__train__a_dot_h": HEADER + "#include <muster/data/a.h>\n",
        "runtime__data__order__a_dot_h": HEADER,
        "runtime__data__loader__a_dot_h": HEADER + '#include "common/wire/a.h"\n#include "runtime/data/order/a.h"\n#include <muster/comm/a.h>\n',
        "runtime__pipeline__a_dot_h": HEADER + "#include <muster/train/a.h>\n",
        "examples__a_dot_cc": "#include <muster/data/a.h>\n",
    }

    def check_with(self, name, include):
        return tree(**{**self.LAYERS, name: HEADER + f"\n#include {include}\n"})

    def test_the_layers_as_they_should_be_pass(self):
        self.assert_clean(tree(**self.LAYERS))

    def test_every_edge_that_is_not_in_the_table_is_an_error(self):
        for name, include in [
            ("common__base__b_dot_h", '"common/wire/a.h"'),
            ("common__wire__b_dot_h", '"common/net/a.h"'),
            ("common__net__b_dot_h", '"launcher/core/a.h"'),
            ("launcher__core__b_dot_h", '"common/net/a.h"'),
            ("launcher__core__b_dot_h", '"launcher/io/a.h"'),
            ("launcher__io__b_dot_h", '"agent/core/a.h"'),
            ("launcher__b_dot_h", "<muster/comm/a.h>"),
            ("agent__io__b_dot_h", '"launcher/core/a.h"'),
            ("runtime__comm__b_dot_h", '"agent/core/a.h"'),
            ("runtime__comm__b_dot_h", '"common/net/a.h"'),
            ("runtime__comm__b_dot_h", "<muster/data/a.h>"),
            ("runtime__data__order__b_dot_h", '"runtime/data/loader/a.h"'),
            ("runtime__train__b_dot_h", '"runtime/pipeline/a.h"'),
            ("runtime__vision__b_dot_h", "<muster/train/a.h>"),
            ("runtime__include__muster__data__b_dot_h", "<muster/train/a.h>"),
            ("runtime__include__muster__comm__b_dot_h", '"common/base/a.h"'),
            ("examples__b_dot_h", '"common/base/a.h"'),
        ]:
            with self.subTest(name=name, include=include):
                errors = self.check_with(name, include).errors
                self.assertTrue(errors)
                self.assertIn(f":6: error: may not include {include[1:-1]}", errors[0])

    def test_libraries_stay_in_their_folders(self):
        for name, include in [
            ("common__wire__b_dot_h", "<boost/asio.hpp>"),
            ("launcher__core__b_dot_h", "<boost/asio/ip/tcp.hpp>"),
            ("launcher__core__b_dot_h", "<thread>"),
            ("agent__core__b_dot_h", "<unistd.h>"),
            ("agent__core__b_dot_h", "<ctime>"),
            ("launcher__io__b_dot_h", "<torch/torch.h>"),
            ("launcher__core__b_dot_h", "<torch/torch.h>"),
            ("agent__core__b_dot_h", "<c10/util/Exception.h>"),
            ("agent__io__b_dot_h", "<c10/util/Exception.h>"),
            ("common__net__b_dot_h", "<ATen/ATen.h>"),
            ("runtime__include__muster__b_dot_h", "<boost/asio.hpp>"),
        ]:
            with self.subTest(name=name, include=include):
                self.assert_error(self.check_with(name, include), f":6: error: may not include {include[1:-1]}")

    def test_a_performer_knows_the_outside_by_interfaces_only(self):
        for include in ["<sys/wait.h>", "<unistd.h>", "<filesystem>", '"common/net/task_group.h"', '"agent/io/local_a.h"']:
            with self.subTest(include=include):
                self.assert_error(self.check_with("agent__io__agent_dot_h", include), f":6: error: may not include {include[1:-1]}")
        self.assert_clean(self.check_with("agent__io__agent_dot_h", '"common/net/time.h"'))
        self.assert_error(tree(agent__io__agent_dot_cc="auto t = Clock::now();\n"), "agent/io/agent.cc:1: error: reads a clock")

    def test_an_include_from_the_own_folder_is_an_error(self):
        self.assert_error(self.check_with("launcher__core__b_dot_h", '"a.h"'), "from the root")

    def test_an_include_in_a_comment_or_a_longer_path_is_none(self):
        self.assertEqual(includes_of('// #include <thread>\n/*\n#include <mutex>\n*/\n#  include "x/y.h"\n'), [(5, "x/y.h")])

    def test_one_file_asks_for_the_version_of_libtorch(self):
        for name in ["TORCH_VERSION_MINOR >= 13", "TORCH_ABI_VERSION"]:
            with self.subTest(name=name):
                code = f"// {name}\n#if {name}\n#endif\n"
                self.assert_error(tree(runtime__a_dot_cc=code), "runtime/a.cc:2: error: asks for LibTorch's version")
                self.assert_clean(tree(runtime__torch_versions_dot_h=HEADER + code))

    def test_a_clock_is_read_outside_of_core_only(self):
        for call in ["Clock::now()", "std::chrono::system_clock::now()", "time(nullptr)", "clock_gettime(CLOCK_MONOTONIC, &t)"]:
            with self.subTest(call=call):
                code = f'#include "common/base/clock.h"\n// {call}\nauto t = {call};\n'
                self.assert_error(tree(agent__core__a_dot_cc=code), "agent/core/a.cc:3: error: reads a clock")
                self.assert_clean(tree(agent__io__a_dot_cc=code))


class Sizes(Tidy):
    def function(self, line_count, parameters="int a"):
        return f"int f({parameters}) {{\n" + "  g();\n" * (line_count - 2) + "}\n"

    def test_files_warn_and_fail_at_their_limits(self):
        for name, top, warn, fail in [("common__base__a_dot_h", HEADER, 150, 300), ("common__base__a_dot_cc", "", 300, 600)]:
            rows = top.count("\n")
            self.assert_clean(tree(**{name: top + "\n" * (warn - rows)}))
            self.assertIn("better at most", tree(**{name: top + "\n" * (warn - rows + 1)}).warnings[0])
            self.assertEqual(tree(**{name: top + "\n" * (fail - rows)}).errors, [])
            self.assert_error(tree(**{name: top + "\n" * (fail - rows + 1)}), f"{fail + 1} lines, at most {fail}")

    def test_functions_warn_and_fail_at_their_limits(self):
        self.assert_clean(tree(a_dot_cc=self.function(40)))
        self.assertIn("f: 41 lines", tree(a_dot_cc=self.function(41)).warnings[0])
        self.assert_error(tree(a_dot_cc="\n\n" + self.function(71)), "a.cc:3:", "f: 71 lines, at most 70")

    def test_parameters_warn_and_fail_at_their_limits(self):
        self.assert_clean(tree(a_dot_cc=self.function(2, "int, int, int, int")))
        self.assertIn("f: 5 parameters", tree(a_dot_cc=self.function(2, "int, int, int, int, int")).warnings[0])
        self.assert_error(tree(a_dot_cc=self.function(2, "int, int, int, int, int, int, int")), "f: 7 parameters")

    def test_a_listed_size_passes_and_a_list_that_is_too_long_fails(self):
        self.addCleanup(tidy.ALLOWED_SIZES.clear)
        tidy.ALLOWED_SIZES["a.cc:f"] = "one switch over all commands"
        self.assert_clean(tree(a_dot_cc=self.function(71)))
        self.assert_error(tree(a_dot_cc=self.function(7)), "a.cc:f", "no longer over a limit")


class Functions(unittest.TestCase):
    def found(self, code):
        return [(f.name, f.line, f.line_count, f.parameter_count) for f in functions_of(code)]

    def test_members_constructors_and_operators(self):
        code = (
            "namespace a {\nclass B : public C<int(int)> {\n public:\n  B(int x, int y) noexcept : x_(x), y_{y} {\n  }\n"
            "  bool operator()(int v) const { return v; }\n  bool operator<(const B& o) const { return x < o.x; }\n"
            "  explicit operator bool() const { return true; }\n  int x_ = 1;\n  std::vector<int> v_{1, 2};\n"
            "  std::function<void(int, int)> f_ = nullptr;\n};\n}\n"
        )
        names = ["B", "operator()", "operator<", "bool"]
        self.assertEqual([f[0] for f in self.found(code)], names)
        self.assertEqual(self.found(code)[0], ("B", 4, 2, 2))

    def test_parameters_are_counted_outside_of_brackets(self):
        code = "template <class A, class B>\nstd::map<A, B> f(std::map<A, B> m, void (*g)(int, int), A a = A{1, 2}) {\n}\n"
        self.assertEqual(self.found(code), [("f", 2, 2, 3)])

    def test_attributes_and_conditions_are_not_parameters(self):
        code = "[[nodiscard(\"why, so\")]] decltype(auto) f(int a) noexcept(noexcept(g(a, a))) {\n}\nvoid h(void) {}\n"
        self.assertEqual(self.found(code), [("f", 1, 2, 1), ("h", 3, 1, 0)])

    def test_braces_in_strings_comments_and_macros_do_not_count(self):
        code = "#define X(a) { \\\n  {\nvoid f() {\n  // }\n  g(\"}\", '}', R\"x(})\" })x\", 1'000);\n}\nvoid h() {}\n"
        self.assertEqual(self.found(code), [("f", 3, 4, 0), ("h", 7, 1, 0)])

    def test_values_are_not_functions(self):
        code = "constexpr int kTable[] = {1, 2};\nconst auto x = S{f(1), 2};\nenum class E : int { kA };\nstruct stat s{};\n"
        self.assertEqual(self.found(code), [])

    def test_a_test_is_named_by_its_suite_and_name(self):
        self.assertEqual(self.found("TEST(Suite, DoesIt) {\n  if (a) {\n  }\n}\n"), [("Suite.DoesIt", 1, 4, 2)])


class Documents(Tidy):
    def test_a_relative_link_must_lead_to_a_file_and_a_heading(self):
        self.assert_clean(tree(docs__a_dot_md="# One thing\n[b](b.md#two-things), [here](#one-thing), [web](https://x.org/y)\n",
                               docs__b_dot_md="## Two things\n"))
        self.assert_error(tree(a_dot_md="text\n[b](b.md)\n"), "a.md:2: error: dead link: b.md")
        self.assert_error(tree(a_dot_md="[b](#nothing)\n"), "no heading")
        self.assert_error(tree(a_dot_md="# A\n\n[b]: missing.md\n"), "a.md:3:")

    def test_a_shell_block_runs_in_a_test_or_says_why_not(self):
        index = "[a](a.md)\n"
        for info in ("sh run", "sh norun needs a moon", 'sh title="a.sh"', "text"):
            self.assert_clean(tree(docs__index_dot_md=index, docs__a_dot_md=f"# A\n```{info}\ntrue\n```\n"))
        for info in ("sh", "sh norun"):
            self.assert_error(tree(docs__index_dot_md=index, docs__a_dot_md=f"# A\n```{info}\ntrue\n```\n"), "docs/a.md:2: error: no test runs this block")
        many = "```sh norun needs a moon\ntrue\n```\n" * (tidy.MOST_NORUN + 1)
        self.assert_error(tree(docs__index_dot_md=index, docs__a_dot_md=many), f"{tidy.MOST_NORUN + 1} blocks of documents run in no test")

    def test_the_index_names_every_document(self):
        pages = {"docs__a_dot_md": "# A\n", "docs__b__c_dot_md": "# C\n"}
        self.assert_clean(tree(docs__index_dot_md="[a](a.md), [c](b/c.md#c)\n", **pages))
        self.assert_error(tree(docs__index_dot_md="[a](a.md)\n", **pages), "docs/index.md:1: error: does not name docs/b/c.md")

    def test_code_is_not_a_link(self):
        self.assert_clean(tree(a_dot_md="`[x](y)`\n```\n[x](y)\n# no heading\n```\n"))


class Words(Tidy):
    def test_unfinished_work_is_an_error(self):
        for word in ["TODO", "FIXME", "XXX"]:
            self.assert_error(tree(a_dot_md=f"a\n{word}: later\n"), "a.md:2: error: unfinished")
        self.assert_clean(tree(a_dot_cc='auto p = "/tmp/x-XXXXXX";\n'))

    def test_a_wait_of_the_agent_has_an_end(self):
        for call in ["done.get_future().get()", "asked.wait(lock, [] { return over; })", "thread.join()", "poll(&end, 1, -1)", "waitpid(pid, &status, 0)",
                     "waitid(P_PID, pid, &info, WEXITED)"]:
            self.assert_error(tree(agent__io__a_dot_cc=f"// {call}\nauto x = {call};\n"), ":2:", "a wait without an end")
            self.assert_clean(tree(launcher__commands__a_dot_cc=f"auto x = {call};\n"))
        for call in ["told.wait_for(limit)", "waitpid(pid, &status, WNOHANG)", "waitid(P_PID, pid, &info, WEXITED | WNOHANG)", "poll(&end, 1, 1000)"]:
            self.assert_clean(tree(agent__io__a_dot_cc=f"auto x = {call};\n"))

    def test_a_unit_test_may_not_sleep(self):
        for call in ["std::this_thread::sleep_for(1s)", "usleep(1)", "sleep(1)"]:
            self.assert_error(tree(tests__unit__a_test_dot_cc=f"// {call}\nauto x = {call};\n"), ":2:", "does not sleep")
            self.assert_clean(tree(tests__process__a_test_dot_cc=f"auto x = {call};\n"))

    def test_headers_begin_with_a_comment_and_are_read_once(self):
        self.assert_error(tree(common__base__a_dot_h="#pragma once\n"), "begins with a comment")
        self.assert_error(tree(common__base__a_dot_h="// a\n// b\n// c\n"), "no #pragma once")
        self.assertIn("better 3 to 10", tree(common__base__a_dot_h="// a\n#pragma once\n").warnings[0])

    def test_a_planted_bug_applies_to_the_tree(self):
        patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n"
        self.assert_clean(tree(a_dot_txt="a\n", tests__mutants__b_dot_patch=patch))
        self.assert_error(tree(a_dot_txt="c\n", tests__mutants__b_dot_patch=patch), "tests/mutants/b.patch:1:", "does not apply")

    def test_files_are_named_in_snake_case(self):
        self.assert_error(tree(common__base__aB_dot_h=HEADER), "snake_case")


class English(Tidy):
    def test_a_sentence_that_begins_with_a_clause_is_an_error(self):
        for comment in ["What ends starts others.", "It ends. Of those the last one counts.", "Which it is."]:
            with self.subTest(comment=comment):
                self.assert_error(tree(common__base__a_dot_cc=f"// {comment}\nint a;\n"), "common/base/a.cc:1: error: a sentence begins with")
        self.assert_clean(tree(common__base__a_dot_cc="// What is it? Nobody knows what it is, or which of them.\nint a;\n"))

    def test_comments_literals_and_documents_are_read_and_code_is_not(self):
        for name, text in [("common__base__a_dot_cc", 'auto a = "this is no host";\n'), ("common__base__a_dot_cc", "int a;  // this is no host\n"),
                           ("tools__a_dot_py", "# this is no host\n"), ("docs__a_dot_md", "| a | this is no host |\n")]:
            with self.subTest(name=name, text=text):
                self.assert_error(tree(**{name: text}), ":1: error: 'is no X'")
        self.assert_clean(tree(docs__a_dot_md="```\nWhat is no host\n```\n`is no host`\n# What is no host\n"))
        self.assert_clean(tree(tools__a_dot_py="is_no = is no_such\n"))

    def test_a_literal_is_split_behind_a_comma(self):
        self.assert_error(tree(common__base__a_dot_cc='auto a =\n    "the worker "\n    "ended";\n'), "a.cc:2: error: a literal is split")
        self.assert_clean(tree(common__base__a_dot_cc='auto a =\n    "the worker ended, "\n    "and so on";\n'))

    def test_a_line_of_a_document_has_160_columns_at_most(self):
        self.assert_error(tree(docs__a_dot_md="a" * 161 + "\n"), "docs/a.md:1: error: 161 columns, at most 160")
        self.assert_clean(tree(docs__a_dot_md="a" * 160 + "\n"))

    def test_the_list_of_what_is_allowed_can_only_shrink(self):
        code = "int a;  // Of one.\n"
        listed = "# path and number\n{} common/base/a.cc\n"
        self.assert_clean(tree(common__base__a_dot_cc=code, tools__english_allowed_dot_txt=listed.format(1)))
        self.assert_error(tree(common__base__a_dot_cc=code, tools__english_allowed_dot_txt=listed.format(0)), "a sentence begins with 'Of'")
        self.assert_error(tree(common__base__a_dot_cc=code, tools__english_allowed_dot_txt=listed.format(2)), "lower the number")
        self.assert_error(tree(tools__english_allowed_dot_txt=listed.format(3)), "which does not exist")


if __name__ == "__main__":
    unittest.main()
