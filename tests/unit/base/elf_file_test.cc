#include "common/base/elf_file.h"

#include <cstring>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ReadAt reader_of(const std::string& file) {
  return [&file](std::uint64_t offset, std::size_t size) {
    return offset < file.size() ? file.substr(offset, size) : std::string();
  };
}

// With a segment of code and one that names a loader.
std::string program(const std::string& loader, Elf64_Xword stated_bytes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phnum = 2;
  header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Phdr segments[2]{};
  segments[0].p_type = PT_LOAD;
  segments[1].p_type = PT_INTERP;
  segments[1].p_offset = sizeof header + sizeof segments;
  segments[1].p_filesz = stated_bytes;
  std::string bytes(sizeof header + sizeof segments, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, segments, sizeof segments);
  return bytes + loader + '\0' + "what follows";
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

TEST(Elf, IsNothingElse) {
  EXPECT_THAT(elf_segments(reader_of("#!/bin/sh\n")), IsEmpty());
  std::string other = program("/lib/ld.so", 11);
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(elf_loader(reader_of(other)), "");
  EXPECT_EQ(elf_loader(reader_of(program("/lib/ld.so", 1 << 20))), "") << "no path is so long";
  EXPECT_EQ(elf_loader(reader_of(program("/lib/ld.so", 1000))), "") << "there are no more bytes";
}

TEST(Elf, NoTornOrDamagedFileMakesTheReaderReadBeyondIt) {
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
