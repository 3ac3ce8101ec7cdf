#!/usr/bin/env python3
"""Plants bugs in small files and looks that clang-tidy, by the checks of
.clang-tidy, sees each; and that cmake/tidy.sh looks at every source in turn.

usage: tidy_test.py <repository>
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop(1))

CLEAN = """
#include <string>
#include <utility>
#include <vector>
namespace cleave {
std::vector<std::string> repeat(std::string text, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(text);
  texts.push_back(std::move(text));
  return texts;
}
} // namespace cleave
"""

# What is planted in CLEAN's namespace, and the check that sees it.
BUGS = {
    "bugprone-use-after-move":
        "size_t f(std::string a, std::vector<std::string> &to) {\n"
        "  to.push_back(std::move(a));\n  return a.size();\n}\n",
    "bugprone-sizeof-expression":
        "size_t f(const char *name) { return sizeof(sizeof(name)); }\n",
    "bugprone-integer-division":
        "double f(int a, int b) { return a / b; }\n",
    "bugprone-infinite-loop":
        "void f(int n) {\n  int i = 0;\n  while (i < n) {\n  }\n}\n",
    "bugprone-unused-return-value":
        "void f(std::vector<int> &list) { list.empty(); }\n",
    "performance-for-range-copy":
        "size_t f(const std::vector<std::string> &list) {\n  size_t n = 0;\n"
        "  for (const std::string each : list)\n    n += each.size();\n"
        "  return n;\n}\n",
    "performance-unnecessary-value-param":
        "size_t f(const std::vector<std::string> list) {"
        " return list.size(); }\n",
    "readability-container-size-empty":
        "bool f(const std::string &text) { return text.size() == 0; }\n",
}


def tidy(text):
    """The exit code of clang-tidy for a file of that text, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "planted.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run(
            ["clang-tidy-22", "--quiet",
             f"--config-file={ROOT}/.clang-tidy", path, "--", "-std=c++20"],
            capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


def list_sources(*which):
    run = subprocess.run([f"{ROOT}/cmake/tidy.sh", "--list", *which],
                         capture_output=True, text=True, check=True)
    return set(run.stdout.split())


class TidyTest(unittest.TestCase):
    def test_finds_nothing_in_a_clean_file(self):
        self.assertEqual(tidy(CLEAN)[0], 0)

    def test_fails_on_each_planted_bug(self):
        for check, bug in BUGS.items():
            with self.subTest(check=check):
                code, output = tidy(CLEAN.replace("} // namespace",
                                                  bug + "} // namespace"))
                self.assertNotEqual(code, 0, output)
                self.assertIn(check, output)

    def test_accepts_a_reasoned_nolint(self):
        bug = BUGS["bugprone-integer-division"].replace(
            "}\n", "} // NOLINT(bugprone-integer-division): whole ones count\n")
        self.assertEqual(tidy(CLEAN.replace("} // namespace",
                                            bug + "} // namespace"))[0], 0)

    def test_samples_have_all_sources_between_them(self):
        every = list_sources("all")
        samples = [list_sources("sample", str(i)) for i in range(16)]
        self.assertGreater(len(every), 100)
        self.assertEqual(set().union(*samples), every)
        always = set.intersection(*samples)  # are changed
        for folders, most in [(("lib/", "runtime/"), 1 / 4),
                              (("dialects/", "passes/", "tools/"), 1 / 8)]:
            these = {path for path in every - always
                     if path.startswith(folders)}
            self.assertGreater(len(these), 20)
            self.assertLess(max(len(these & sample) for sample in samples),
                            len(these) * most)


if __name__ == "__main__":
    unittest.main()
