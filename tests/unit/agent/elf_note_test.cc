#include "agent/core/start/elf_note.h"

#include <cstring>
#include <elf.h>
#include <gtest/gtest.h>

#include "tests/elf_image.h"

namespace muster::agent {
namespace {

template <class Struct>
std::string bytes_of(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string note(const std::string& name, std::uint32_t type, const std::string& value) {
  std::string bytes = bytes_of(
      Elf64_Nhdr{static_cast<Elf64_Word>(name.size() + 1), static_cast<Elf64_Word>(value.size()), type});
  bytes += name + std::string(1 + (4 - (name.size() + 1) % 4) % 4, '\0');
  return bytes + value + std::string((4 - value.size() % 4) % 4, '\0');
}
const std::string kVersion(1, '\1');
std::string warm_note() {
  return note("Muster", 1, kVersion + std::string(3, '\0'));
}

// An ELF file with one segment of code and one of notes.
std::string program(const std::string& notes, std::uint32_t type_of_second = PT_NOTE) {
  return elf_image(type_of_second, notes, notes.size());
}

bool found(const std::string& file) {
  return has_warm_note(reader_of(file));
}

TEST(ElfNote, IsFoundAmongOthers) {
  EXPECT_TRUE(found(program(warm_note())));
  EXPECT_TRUE(found(program(note("GNU", 3, "0123456789") + note("", 1, "") + warm_note())));
}

TEST(ElfNote, HasTheRightOwnerTypeVersionAndSegment) {
  EXPECT_FALSE(found(program("")));
  EXPECT_FALSE(found(program(note("Must", 1, kVersion + std::string(3, '\0')))));
  EXPECT_FALSE(found(program(note("Muster", 2, kVersion + std::string(3, '\0')))));
  EXPECT_FALSE(found(program(note("Muster", 1, std::string(4, '\2')))));
  EXPECT_FALSE(found(program(note("Muster", 1, kVersion))));
  EXPECT_FALSE(found(program(warm_note(), PT_LOAD)));
}

TEST(ElfNote, IsNotInATruncatedFile) {
  const std::string whole = program(note("GNU", 3, "abc") + warm_note());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(found(whole.substr(0, size))) << size << " bytes";
}

TEST(ElfNote, ADamagedByteDoesNotMakeTheReaderReadBeyondTheFile) {
  const std::string whole = program(note("GNU", 3, "abc") + warm_note());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char damage : {'\0', '\x7f', '\xff'}) {
      std::string file = whole;
      file[at] = damage;
      found(file);
    }
  }
}

TEST(ElfNote, AHugeSizeIsRefused) {
  std::string file = program(warm_note());
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  header.e_phnum = 60000;
  std::memcpy(file.data(), &header, sizeof header);
  std::size_t largest = 0;
  EXPECT_FALSE(has_warm_note([&](std::uint64_t offset, std::size_t size) {
    largest = std::max(largest, size);
    return reader_of(file)(offset, size);
  }));
  EXPECT_LE(largest, 64U << 10);
}

TEST(ElfNote, ScriptsAndTextsHaveNone) {
  EXPECT_FALSE(found("#!/bin/sh\necho\n"));
  EXPECT_FALSE(found(std::string(1000, 'x')));
}

TEST(Interpreter, IsReadFromTheFirstLine) {
  const auto of = [](const std::string& file) { return interpreter_of(reader_of(file)); };
  EXPECT_EQ(of("#!/bin/sh\necho\n"), "/bin/sh");
  EXPECT_EQ(of("#! /opt/train -x\n"), "/opt/train");
  EXPECT_EQ(of("#!/bin/sh"), "/bin/sh");
  EXPECT_EQ(of("#!"), "");
  EXPECT_EQ(of(program(warm_note())), "");
}

}  // namespace
}  // namespace muster::agent
