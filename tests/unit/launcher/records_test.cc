#include "launcher/core/journal/records.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using nlohmann::json;

std::string journal_of(int count) {
  std::string bytes(kJournalHead);
  for (int i = 0; i < count; ++i) append_record(bytes, {{"number", i}, {"text", "x"}});
  return bytes;
}

TEST(JournalRecords, AreReadInTheirOrder) {
  const std::string bytes = journal_of(3);
  auto reader = RecordReader::open(bytes);
  ASSERT_TRUE(reader);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader->next()->value().at("number"), i);
  EXPECT_FALSE(reader->next()->has_value());
  EXPECT_FALSE(reader->torn());
}

TEST(JournalRecords, EndBeforeATornRecord) {
  const std::string whole = journal_of(2);
  const std::size_t first = journal_of(1).size();
  for (std::size_t size = first + 1; size < whole.size(); ++size) {
    const std::string bytes = whole.substr(0, size);
    auto reader = RecordReader::open(bytes);
    ASSERT_TRUE(reader);
    EXPECT_TRUE(reader->next()->has_value()) << size;
    EXPECT_FALSE(reader->next()->has_value()) << size;
    EXPECT_TRUE(reader->torn()) << size;
  }
}

TEST(JournalRecords, AreRefusedIfABitHasFlipped) {
  const std::string whole = journal_of(2);
  const std::size_t first = journal_of(1).size();
  for (std::size_t place = kJournalHead.size(); place < first; ++place) {
    std::string bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ 0x40);
    auto reader = RecordReader::open(bytes);
    ASSERT_TRUE(reader);
    const auto record = reader->next();
    // A length beyond the end looks like a torn record.
    const bool told = !record || (!record->has_value() && reader->torn());
    EXPECT_TRUE(told) << place;
    if (!record) EXPECT_EQ(record.error().message(), "the record at byte 17 is damaged") << place;
  }
}

TEST(JournalRecords, AreNotWrittenIfTheyCouldNotBeRead) {
  std::string bytes = "x";
  EXPECT_FALSE(append_record(bytes, {{"text", std::string(kMaxRecordBytes, 'x')}}));
  EXPECT_EQ(bytes, "x");
}

TEST(JournalRecords, AreReadOnlyFromThisVersion) {
  EXPECT_FALSE(RecordReader::open("muster journal 0\n"));
  EXPECT_FALSE(RecordReader::open(""));
}

}  // namespace
}  // namespace muster::launcher
