#!/usr/bin/env python3
"""Tests the output of tools/docs_site.py and tools/api_pages.py for small documents and headers. ./dev test python builds the site itself."""

import unittest

import api_pages
import docs_site

FENCE = "```"

HEADER = """\
// Counts steps: by ones.
//
//   Counter counter(3);
//   counter.add();
//
// For one thread. See start_value and Counter::add.
#pragma once

#include <string>

namespace muster {

namespace detail {
int hidden();
}

class Later;

// Where it begins.
struct CounterOptions {
  int from = 0;  // the first value
  // Not more than this.
  std::string most{};
  enum class Kind { kUp, kDown };
};

class Counter {
 public:
  // One more. std::logic_error at the end.
  // - by: how much,
  //   in steps
  template <class Number>
    requires(sizeof(Number) > 1)
  void add(Number by) {
    if (by > 0) value_ += by;
  }
  explicit Counter(int from) : value_(from), name_{"x"} {}
  Counter(const Counter&) = delete;
  int value() const { return value_; }  // so far

 private:
  friend int peek(const Counter& counter);
  int value_ = 0;
};

int first(int a, int b = 2);
int second(int a);

}  // namespace muster
"""


class ApiPages(unittest.TestCase):
    def setUp(self):
        self.page = api_pages.page_of("muster/rank/counter.h", HEADER)

    def test_the_comment_at_the_top_is_text_with_examples(self):
        self.assertIn("# counter.h\n\n```cpp\n#include <muster/rank/counter.h>\n```\n\nCounts steps: by ones.\n\n"
                      "```cpp\nCounter counter(3);\ncounter.add();\n```\n\nFor one thread. See `start_value` and `Counter::add`.\n", self.page)

    def test_members_have_their_comments_as_text(self):
        self.assertIn("## CounterOptions\n\nWhere it begins.\n\n```cpp\nstruct CounterOptions\n```\n\n```cpp\nint from = 0;  // the first value\n```\n\n"
                      "Not more than this.\n\n```cpp\nstd::string most{};\n```\n\n```cpp\nenum class Kind { kUp, kDown };\n```\n", self.page)

    def test_functions_have_no_bodies(self):
        self.assertIn("One more. `std::logic_error` at the end.\n- by: how much,\n  in steps\n\n```cpp\ntemplate <class Number>\n  requires(sizeof(Number) > 1)\nvoid add(Number by);\n"
                      "explicit Counter(int from);\nint value() const;  // so far\n```", self.page)

    def test_functions_without_a_comment_between_them_share_a_heading(self):
        self.assertIn("## first, second\n\n```cpp\nint first(int a, int b = 2);\nint second(int a);\n```", self.page)

    def test_what_is_not_for_users_is_left_out(self):
        for text in ("hidden", "Later", "delete", "friend", "value_", "private"):
            self.assertNotIn(text, self.page)

    def test_the_first_sentence_says_what_it_is(self):
        self.assertEqual(api_pages.first_sentence(api_pages.top_comment(HEADER)), "Counts steps")


class Markdown(unittest.TestCase):
    def test_lists_and_tables_begin_behind_a_blank_line(self):
        self.assertEqual(docs_site.as_python_markdown("Text:\n- a\n- b\n  goes on\n\nText\n| a |\n| --- |\n"),
                         "Text:\n\n- a\n- b\n    goes on\n\nText\n\n| a |\n| --- |\n")

    def test_what_is_inside_of_a_list_item_has_four_spaces(self):
        self.assertEqual(docs_site.as_python_markdown(f"1. a\n   - b\n\n   {FENCE}sh run\n   x\n     y\n   {FENCE}\n2. c\n\nText\n"),
                         f"1. a\n    - b\n\n    {FENCE}sh\n    x\n      y\n    {FENCE}\n2. c\n\nText\n")

    def test_blocks_keep_their_language_and_title_alone(self):
        self.assertEqual(docs_site.as_python_markdown(f'{FENCE}sh run hosts\n- x\n{FENCE}\n{FENCE}python title="a.py"\n| y\n{FENCE}\n'),
                         f'{FENCE}sh\n- x\n{FENCE}\n{FENCE}python title="a.py"\n| y\n{FENCE}\n')

    def test_a_bar_in_a_tables_code_has_no_backslash(self):
        self.assertEqual(docs_site.as_python_markdown("| `a\\|b` | c\\|d |\n"), "| `a|b` | c\\|d |\n")


class Site(unittest.TestCase):
    def test_links_to_sources_lead_to_their_pages(self):
        linked, headers = set(), ["runtime/include/muster/data/sampler.h"]
        text = "[a](b.md#c) [d](../dev) [e](../runtime/include/muster/data/sampler.h) [f](#g) `[x](../y)` [h](../README.md)\n"
        self.assertEqual(docs_site.with_links_to_pages("docs/a.md", text, headers, linked),
                         "[a](b.md#c) [d](../dev.md) [e](../api/data/sampler.md) [f](#g) `[x](../y)` [h](../README.md)\n")
        self.assertEqual(linked, {"dev", headers[0]})

    def test_the_index_is_the_table_of_contents(self):
        index = "# D\n## Start\n| page | |\n| --- | --- |\n| [A](start/a.md) | you |\n### More\n| [B](b.md) | you |\n## Design\n- [1. C](decisions/1.md)\n"
        self.assertEqual(docs_site.contents(index), [{"Start": [{"A": "docs/start/a.md"}, {"More": [{"B": "docs/b.md"}]}]},
                                                     {"Design": [{"1. C": "docs/decisions/1.md"}]}])


if __name__ == "__main__":
    unittest.main()
