#include "launcher/core/verdict/exception_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ranges>
#include <vector>

namespace muster::launcher {
namespace {

std::string found(std::string_view text) {
  std::vector<std::string> lines;
  for (const auto line : text | std::views::split('\n')) lines.emplace_back(line.begin(), line.end());
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return exception_in(lines);
}

struct Printed {
  const char* name;
  const char* text;
  const char* exception;
};
void PrintTo(const Printed& printed, std::ostream* out) {
  *out << printed.name;
}
class ExceptionText : public testing::TestWithParam<Printed> {};

TEST_P(ExceptionText, NamesTypeTextAndPlace) {
  EXPECT_EQ(found(GetParam().text), GetParam().exception);
}

const Printed kPython[] = {
    {"plain", R"(starting
Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    main()
  File "/home/me/train.py", line 6, in main
    raise RuntimeError("bad sample 17")
RuntimeError: bad sample 17
)",
     "RuntimeError: bad sample 17 (train.py:6)"},
    {"carets", R"(Traceback (most recent call last):
  File "/x/train.py", line 6, in main
    1 / zero
    ~~^~~~~~
ZeroDivisionError: division by zero)",
     "ZeroDivisionError: division by zero (train.py:6)"},
    {"no message", R"(Traceback (most recent call last):
  File "train.py", line 2, in <module>
    assert False
AssertionError
)",
     "AssertionError (train.py:2)"},
    {"of a package", R"(Traceback (most recent call last):
  File "train.py", line 40, in step
    loss.backward()
torch.distributed.DistBackendError: NCCL error in: x.cpp:1
ncclRemoteError: A call failed
)",
     "torch.distributed.DistBackendError: NCCL error in: x.cpp:1 (train.py:40)"},
    {"local class", R"(Traceback (most recent call last):
  File "t.py", line 3, in f
    raise Bad
f.<locals>.Bad: no
)",
     "f.<locals>.Bad: no (t.py:3)"},
    {"in a library", R"(Traceback (most recent call last):
  File "/x/train.py", line 12, in forward
    return self.linear(x)
  File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x10 and 20x4)
)",
     "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x10 and 20x4) (train.py:12)"},
    {"in nothing but a library", R"(Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
)",
     "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) (decoder.py:355)"},
    {"chained by raise from", R"(Traceback (most recent call last):
  File "t.py", line 3, in <module>
    open("/nowhere")
FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "t.py", line 5, in <module>
    raise RuntimeError("no data") from error
RuntimeError: no data
)",
     "RuntimeError: no data (t.py:5)"},
    {"chained in a handler", R"(Traceback (most recent call last):
  File "t.py", line 3, in <module>
    {}["a"]
    ~~^^^^^
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "t.py", line 5, in <module>
    undefined
NameError: name 'undefined' is not defined
)",
     "NameError: name 'undefined' is not defined (t.py:5)"},
    {"SyntaxError of the script", R"(  File "/x/train.py", line 3
    def f(:
          ^
SyntaxError: invalid syntax
)",
     "SyntaxError: invalid syntax (train.py:3)"},
    {"IndentationError of a module", R"(Traceback (most recent call last):
  File "/x/train.py", line 1, in <module>
    import model
  File "/x/model.py", line 2
    x = 1
    ^
IndentationError: expected an indented block after function definition on line 1
)",
     "IndentationError: expected an indented block after function definition on line 1 (model.py:2)"},
    {"exception group", R"(  + Exception Group Traceback (most recent call last):
  |   File "/x/t.py", line 7, in <module>
  |     raise ExceptionGroup("many", errors)
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/t.py", line 3, in f
    |     raise ValueError("a")
    | ValueError: a
    +---------------- 2 ----------------
    | TypeError: b
    +------------------------------------
)",
     "ExceptionGroup: many (2 sub-exceptions) (t.py:7)"},
    {"the end of an exception group", R"(  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/t.py", line 3, in f
    |     raise ValueError("a")
    | ValueError: a
    +------------------------------------
)",
     "ValueError: a (t.py:3)"},
    {"colours",
     "Traceback (most recent call last):\n"
     "  File \x1b[35m\"/x/train.py\"\x1b[0m, line \x1b[35m6\x1b[0m, in \x1b[35m<module>\x1b[0m\n"
     "    \x1b[31mmain\x1b[0m\x1b[1;31m()\x1b[0m\n"
     "    \x1b[31m~~~~\x1b[0m\x1b[1;31m^^\x1b[0m\n"
     "\x1b[1;35mRuntimeError\x1b[0m: \x1b[35mbad sample 17\x1b[0m\n",
     "RuntimeError: bad sample 17 (train.py:6)"},
    {"torch's prefix", R"([rank0]: Traceback (most recent call last):
[rank0]:   File "/x/train.py", line 6, in <module>
[rank0]:     main()
[rank0]: RuntimeError: bad sample 17
[rank0]:[W1119 10:00:00.0 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group() was not called
)",
     "RuntimeError: bad sample 17 (train.py:6)"},
    {"many lines", R"(Traceback (most recent call last):
  File "t.py", line 1, in <module>
    f()
ValueError: first
second: line
    third line
)",
     "ValueError: first (t.py:1)"},
    {"a message that begins with an empty line", R"(Traceback (most recent call last):
  File "t.py", line 1, in <module>
    f()
AssertionError: 

  Tensors differ
)",
     "AssertionError: Tensors differ (t.py:1)"},
    {"of a DataLoader's process", R"(Traceback (most recent call last):
  File "/x/train.py", line 20, in <module>
    for batch in loader:
  File "/venv/lib/python3.11/site-packages/torch/_utils.py", line 769, in reraise
    raise exception
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
  File "/x/data.py", line 10, in __getitem__
    raise ValueError("bad sample")
ValueError: bad sample
)",
     "ValueError: bad sample (data.py:10)"},
    {"a module that -m does not find", "/opt/venv/bin/python3.11: No module named no_such\n",
     "ModuleNotFoundError: No module named no_such"},
    {"a package that -m does not find",
     "/usr/bin/python3: Error while finding module specification for 'no.such' "
     "(ModuleNotFoundError: No module named 'no')\n",
     "ModuleNotFoundError: No module named 'no'"},
    {"KeyboardInterrupt", R"(Traceback (most recent call last):
  File "t.py", line 4, in <module>
    time.sleep(9)
KeyboardInterrupt
)",
     "KeyboardInterrupt (t.py:4)"},
    {"of torchrun, whose rank has printed it", R"([rank1]: Traceback (most recent call last):
[rank1]:   File "/x/train.py", line 6, in main
[rank1]:     raise ValueError("bad sample 17")
[rank1]: ValueError: bad sample 17
E1130 08:39:18.197000 26677 torch/distributed/elastic/multiprocessing/api.py:900] failed (exitcode: 1) local_rank: 0 (pid: 9)
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 400, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_08:39:18
  host      : h0
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 9)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
)",
     "ChildFailedError: ValueError: bad sample 17 (train.py:6)"},
    {"of torchrun, whose rank has recorded it", R"(Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 400, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
Failures:
[1]:
  traceback : Traceback (most recent call last):
    File "/x/train.py", line 9, in main
      store.get()
  RuntimeError: peer gone
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : 1 (pid: 9)
  error_file: /tmp/error.json
  traceback : Traceback (most recent call last):
    File "/venv/lib/python3.11/site-packages/torch/distributed/elastic/errors/__init__.py", line 384, in wrapper
      result = f(*args, **kwargs)
    File "/x/train.py", line 6, in main
      raise ValueError("bad sample 17")
  ValueError: bad sample 17
  
============================================================
)",
     "ChildFailedError: ValueError: bad sample 17 (train.py:6)"},
    {"of torchrun, whose rank was killed", R"(Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 400, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
=====================================================
Root Cause (first observed failure):
[0]:
  exitcode  : -9 (pid: 9)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 9
=====================================================
)",
     "ChildFailedError: Signal 9 (SIGKILL) received"},
    {"of torchrun, whose rank said nothing", R"(Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 400, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
Root Cause (first observed failure):
[0]:
  exitcode  : 3 (pid: 9)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
)",
     "ChildFailedError: exit code 3"},
    {"of another launch", R"(node0:0: Traceback (most recent call last):
launch: rank 0 (node0) exited with code 3; attempt 2 starts
launch: failed after 2.5 s: rank 0 (node0) failed with ValueError: bad sample 17 (train.py:6)
  last lines  | ValueError: bad sample 17
  exit code   1
)",
     "launch: rank 0 (node0) failed with ValueError: bad sample 17 (train.py:6)"},
    {"without its first lines", R"(    result = self.forward(x)
             ^^^^^^^^^^^^^^^
  File "train.py", line 3, in forward
    raise KeyError(3)
KeyError: 3
)",
     "KeyError: 3 (train.py:3)"},
    {"command line", R"(Traceback (most recent call last):
  File "<string>", line 1, in <module>
ZeroDivisionError: division by zero
)",
     "ZeroDivisionError: division by zero (<string>:1)"},
};
INSTANTIATE_TEST_SUITE_P(Python, ExceptionText, testing::ValuesIn(kPython));

const Printed kCxx[] = {
    {"what", R"(terminate called after throwing an instance of 'std::runtime_error'
  what():  bad sample 17
)",
     "std::runtime_error: bad sample 17"},
    {"no what", "terminate called after throwing an instance of 'int'\n", "int"},
    {"many lines", R"(before
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: no kernel image
Exception raised from c10_cuda_check at CUDAException.cpp:43 (most recent call first):
frame #0: c10::Error::Error(...) + 0x96 (0x7f in libc10.so)
)",
     "c10::Error: CUDA error: no kernel image"},
    {"an empty what", "terminate called after throwing an instance of 'Bad'\n  what():  \n", "Bad"},
    {"after Python's", R"(Traceback (most recent call last):
  File "t.py", line 1, in <module>
KeyError: 3
terminate called after throwing an instance of 'std::system_error'
  what():  Resource temporarily unavailable
)",
     "std::system_error: Resource temporarily unavailable"},
};
INSTANTIATE_TEST_SUITE_P(Cxx, ExceptionText, testing::ValuesIn(kCxx));

const Printed kNone[] = {
    {"SystemExit", "bad arguments\n", ""},
    {"a log", "INFO: starting\nerror: cannot open x\n", ""},
    {"nothing", "", ""},
    {"a call stack that was only printed", R"(here we are:
  File "t.py", line 3, in <module>
    traceback.print_stack()
INFO: going on
)",
     ""},
    {"a crash that faulthandler tells of", R"(Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "t.py", line 3 in f
  File "t.py", line 9 in <module>

Extension modules: torch._C
)",
     ""},
    {"-m in the middle of the output", "/usr/bin/python3: No module named helper\nfalling back\n", ""},
    {"of another program than Python", "worker: No module named helper\n", ""},
    {"an exception that Python ignored", R"(Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "pool.py", line 268, in __del__
    self._change_notifier.put(None)
OSError: [Errno 9] Bad file descriptor
)",
     ""},
};
INSTANTIATE_TEST_SUITE_P(None, ExceptionText, testing::ValuesIn(kNone));

TEST(ExceptionTexts, KeepsTheRealExceptionBeforeAnIgnoredOne) {
  EXPECT_EQ(found(R"(Traceback (most recent call last):
  File "t.py", line 3, in <module>
    f()
ValueError: real
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "pool.py", line 268, in __del__
OSError: [Errno 9] Bad file descriptor
)"),
            "ValueError: real (t.py:3)");
}

TEST(ExceptionTexts, CutsALongTextBetweenTwoLetters) {
  std::string text = "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: ";
  for (int i = 0; i < 1000; ++i) text += "\u00e4";
  const std::string cut = found(text);
  EXPECT_LE(cut.size(), kMaxExceptionBytes + 20);
  EXPECT_TRUE(cut.ends_with("\u00e4 ... (t.py:1)")) << cut;
}

TEST(ExceptionTexts, SurvivesLinesThatAreCutAnywhere) {
  for (const auto& table : {std::span<const Printed>(kPython), std::span<const Printed>(kCxx)}) {
    for (const Printed& each : table) {
      const std::string text = each.text;
      for (std::size_t size = 0; size <= text.size(); ++size) {
        found(text.substr(0, size));
        EXPECT_EQ(found(text.substr(size)).find('\n'), std::string::npos) << each.name;
      }
    }
  }
}

}  // namespace
}  // namespace muster::launcher
