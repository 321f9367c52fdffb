// The start of a program that has to run with glibc 2.28 to 2.33, too.
//
// Since glibc 2.34, the code that the linker adds before main() leaves the program's constructors to the
// library. An older library runs only the constructors that it is told of. So this function tells it. A newer
// library then runs these, and not its own list.
namespace {

using Constructor = void(int argc, char** argv, char** environment);
using Main = int(int argc, char** argv, char** environment);

}  // namespace

extern "C" {

extern Constructor* __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor* __init_array_end[] __attribute__((visibility("hidden")));
void _init() __attribute__((visibility("hidden")));

int start_of_glibc(Main* main, int argc, char** argv, Main* construct, void (*end)(), void (*end_of_loader)(),
                   void* stack_end);
__asm__(".symver start_of_glibc, __libc_start_main@GLIBC_2.2.5");

static int construct(int argc, char** argv, char** environment) {
  _init();
  for (Constructor** each = __init_array_start; each != __init_array_end; ++each)
    (*each)(argc, argv, environment);
  return 0;
}

int __libc_start_main(Main* main, int argc, char** argv, Main* /*construct*/, void (*end)(),
                      void (*end_of_loader)(), void* stack_end) {
  return start_of_glibc(main, argc, argv, construct, end, end_of_loader, stack_end);
}

}  // extern "C"
