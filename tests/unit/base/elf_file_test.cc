#include "common/base/elf_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/elf_image.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string program(const std::string& loader, Elf64_Xword stated_bytes) {
  return elf_image(PT_INTERP, loader + '\0' + "what follows", stated_bytes);
}

TEST(Elf, NamesTheLoader) {
  const std::string file = program("/lib/ld.so", 11);
  EXPECT_THAT(elf_segments(reader_of(file)), SizeIs(2));
  EXPECT_EQ(elf_loader(reader_of(file)), "/lib/ld.so");
}

TEST(Elf, NamesTheLoaderOfThisProgram) {
  const UniqueFd own(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(elf_loader(reader_of(own)), HasSubstr("/ld-"));
  EXPECT_EQ(elf_loader(reader_of(UniqueFd())), "") << "a file that could not be opened";
}

TEST(Elf, NamesTheLibrariesOfThisProgram) {
  const UniqueFd own(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(elf_needs(reader_of(own)), testing::Contains("libc.so.6"));
  EXPECT_THAT(elf_needs(reader_of(UniqueFd())), IsEmpty());
  EXPECT_THAT(elf_needs(reader_of(program("/lib/ld.so", 11))), IsEmpty());
  const Elf64_Dyn torn[] = {{.d_tag = DT_NEEDED, .d_un = {.d_val = 1}},
                            {.d_tag = DT_STRTAB, .d_un = {.d_ptr = 1 << 20}}};
  const std::string bytes(reinterpret_cast<const char*>(torn), sizeof torn);
  EXPECT_THAT(elf_needs(reader_of(elf_image(PT_DYNAMIC, bytes, bytes.size()))), IsEmpty())
      << "the names are missing";
}

TEST(Elf, IsRecognizedOnlyInElfFiles) {
  EXPECT_THAT(elf_segments(reader_of("#!/bin/sh\n")), IsEmpty());
  std::string other = program("/lib/ld.so", 11);
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(elf_loader(reader_of(other)), "");
  EXPECT_EQ(elf_loader(reader_of(program("/lib/ld.so", 1 << 20))), "") << "a path cannot be that long";
  EXPECT_EQ(elf_loader(reader_of(program("/lib/ld.so", 1000))), "") << "the file ends before";
}

TEST(Elf, ATruncatedOrDamagedFileDoesNotMakeTheReaderReadBeyondIt) {
  const std::string whole = program("/lib/ld.so", 11);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    EXPECT_THAT(elf_loader(reader_of(whole.substr(0, at))), testing::AnyOf("", "/lib/ld.so")) << at;
    for (const char damage : {'\0', '\x7f', '\xff'}) {
      std::string file = whole;
      file[at] = damage;
      elf_loader(reader_of(file));
    }
  }
}

}  // namespace
}  // namespace muster
