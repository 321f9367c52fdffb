#include "runtime/rank/warm/leave.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <iostream>
#include <link.h>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace muster::warm {
namespace {

// The program, or a shared library.
struct Loaded {
  std::string_view path;
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  bool is_seen = false;

  std::string_view name() const { return path.substr(path.rfind('/') + 1); }
  std::string_view folder() const { return path.substr(0, path.size() - name().size()); }
};

using Objects = std::vector<Loaded>;

int add_to(dl_phdr_info* info, std::size_t /*size*/, void* objects) {
  for (const auto* header = info->dlpi_phdr; header != info->dlpi_phdr + info->dlpi_phnum; ++header) {
    if (header->p_type != PT_DYNAMIC) continue;
    const auto* dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + header->p_vaddr);
    static_cast<Objects*>(objects)->push_back({info->dlpi_name, info->dlpi_addr, dynamic});
  }
  return 0;
}

ElfW(Addr) value_of(const Loaded& object, ElfW(Sxword) tag) {
  for (const auto* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == tag) return entry->d_un.d_ptr;
  return 0;
}

// Appends all objects that this object needs to `order`, and then this object. So `order` is the order in
// which the objects were initialised.
void append(Loaded& object, Objects& objects, Objects& order) {
  if (std::exchange(object.is_seen, true)) return;
  ElfW(Addr) strings = value_of(object, DT_STRTAB);
  if (strings < object.base) strings += object.base;  // the loader relocates it where it may write
  for (const auto* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const std::string_view name = reinterpret_cast<const char*>(strings + entry->d_un.d_val);
    const auto needed = std::ranges::find(objects, name, &Loaded::name);
    if (needed != objects.end()) append(*needed, objects, order);
  }
  order.push_back(object);
}

// Calls the functions that a program or library has for the end of the process. One of these functions runs
// the C++ destructors of the program or library, and the functions that the program or library has registered
// with atexit().
void finish(const Loaded& object) {
  using Function = void (*)();
  const auto* functions = reinterpret_cast<const Function*>(object.base + value_of(object, DT_FINI_ARRAY));
  for (auto left = value_of(object, DT_FINI_ARRAYSZ) / sizeof(Function); left > 0; --left)
    functions[left - 1]();
  const ElfW(Addr) last = value_of(object, DT_FINI);
  if (last != 0) reinterpret_cast<Function>(object.base + last)();
}

bool leaves_torch_behind = false;
bool is_finished = false;       // this object itself
Objects* unfinished = nullptr;  // never destroyed; the last one is the next

// Returns true for a library whose destructors are left out at the end of the process. These are LibTorch's
// own libraries, and those libraries of CUDA whose destructors take long. NVIDIA's destructors change nothing
// outside of the process. A library is LibTorch's own if its name is in kOfTorch and it is in LibTorch's
// folder. The name alone is not enough, and the folder alone is not enough either: other libraries can be in
// this folder, and libraries in other folders can have such names.
bool is_left_behind(const Loaded& object, std::string_view torch_folder) {
  const auto starts = [&object](std::string_view start) { return object.name().starts_with(start); };
  constexpr std::string_view kOfTorch[] = {"libc10.", "libc10_", "libtorch.", "libtorch_"};
  constexpr std::string_view kOfCuda[] = {"libcublas",   "libcudart.",    "libcusolver",
                                          "libcusparse", "libnvJitLink.", "libnvrtc"};
  return (object.folder() == torch_folder && std::ranges::any_of(kOfTorch, starts)) ||
         std::ranges::any_of(kOfCuda, starts);
}

// Returns whether LibTorch is loaded.
bool list_unfinished() {
  Objects objects;
  dl_iterate_phdr(add_to, &objects);
  const auto torch = std::ranges::find(objects, "libtorch_cpu.so", &Loaded::name);
  if (torch == objects.end()) return false;
  const std::string_view folder = torch->folder();
  unfinished = new Objects;
  for (Loaded& object : objects) append(object, objects, *unfinished);
  std::erase_if(*unfinished, [folder](const Loaded& object) { return is_left_behind(object, folder); });
  // Takes a reference to each library, so that no destructor can unload a library whose turn comes later.
  for (const Loaded& object : *unfinished)
    if (!object.folder().empty()) dlopen(object.path.data(), RTLD_LAZY | RTLD_NOLOAD);
  return true;
}

void flush(auto& stream) {
  try {
    stream.flush();
  } catch (const std::exception&) {  // the program has asked for them; libstdc++ ignores them at an end too
  }
}

// exit() first calls the functions that were registered after leave(), such as the destructors of the
// program's own objects. Then it calls leave(), and then the destructors of the libraries that were loaded
// with the program.
void leave(int status, void* /*unused*/) {
  if (unfinished == nullptr && (!leaves_torch_behind || is_finished || !list_unfinished())) return;
  on_exit(leave, nullptr);  // for a destructor that calls exit() itself: goes on with the next library
  while (!unfinished->empty()) {
    const Loaded object = unfinished->back();
    unfinished->pop_back();
    finish(object);
  }
  // LibTorch's libraries also use libstdc++'s streams. libstdc++ flushes the streams when their last user's
  // destructors have run. LibTorch's destructors do not run, so this code flushes the streams.
  flush(std::cout);
  flush(std::clog);
  flush(std::wcout);
  flush(std::wclog);
  std::fflush(nullptr);
  _exit(status);
}

// This constructor runs before all other constructors of the program.
[[gnu::constructor(101)]] void register_leave() {
  on_exit(leave, nullptr);
}

// This code is in the program itself, or in a library that is loaded with the program. If it is in a library,
// exit() calls the destructors of that library before leave(). leave() must then do nothing.
[[gnu::destructor]] void note_finished() {
  is_finished = true;
}

}  // namespace

void leave_torch_behind() {
  const bool has_sanitizer = dlsym(RTLD_DEFAULT, "__sanitizer_report_error_summary") != nullptr;
  leaves_torch_behind = !has_sanitizer;
}

}  // namespace muster::warm
