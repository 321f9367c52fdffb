"""Tests the bugs that planted_bugs.py makes of lines of C++."""

import unittest

import planted_bugs


class Bugs(unittest.TestCase):
    def of(self, line):
        return {done: text.format(7) for done, text in planted_bugs.bugs_of(line)}

    def test_a_condition_is_turned_round_or_meets_a_neighbour_of_its_operator(self):
        self.assertEqual(self.of("  if (a < b && c) {"), {
            "negated": "  if ((planted_bug() == 7) != static_cast<bool>(a < b && c)) {",
            "< became <=": "  if (planted_bug() == 7 ? static_cast<bool>(a <= b && c) : static_cast<bool>(a < b && c)) {",
        })
        self.assertEqual(self.of("  } else if (done) {"),
                         {"negated": "  } else if ((planted_bug() == 7) != static_cast<bool>(done)) {"})

    def test_calls_and_assignments_are_left_out(self):
        self.assertEqual(self.of("  names_.push_back({1, 2});"),
                         {"left out": "  planted_bug() == 7 ? void() : void(names_.push_back({1, 2}));"})
        self.assertEqual(self.of("  count_ += 2;"), {"left out": "  planted_bug() == 7 ? void() : void(count_ += 2);"})

    def test_what_is_declared_or_ends_a_function_stays(self):
        for line in ("  if (const auto found = find(1); found) {", "  if (auto* node = next()) {", "  if (a &&", "  if (f(a) ||", "if (x) {",
                     "  return f(1);", "  throw f(1);", "  co_await f(1);", "  std::lock_guard lock(mutex_);", "  int count = 2;", "  TORCH_CHECK(a);",
                     "  delete f(1);", "  f(1)", "  EXPECT(1);"):
            self.assertEqual(self.of(line), {}, line)


class Failed(unittest.TestCase):
    def test_a_test_with_a_parameter_is_read_from_what_ctest_prints(self):
        self.assertEqual(planted_bugs.failed_tests(
            "The following tests did not run:\n\t 69 - metrics_golden (Skipped)\n\nThe following tests FAILED:\n\t 94 - AgentStdio.Keeps (Failed)\n\t459 - By/LaunchMpi.World/MPICH  # GetParam() = MPICH (Timeout)\n"
            "\t 12 - base_test (SEGFAULT)\nErrors while running CTest\n"), ["AgentStdio.Keeps", "By/LaunchMpi.World/MPICH", "base_test"])


if __name__ == "__main__":
    unittest.main()
