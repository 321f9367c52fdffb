// Folders of Python's streaming and litdata, with the members that these libraries write into index.json.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/csv_dataset.h>
#include <muster/data/token_dataset.h>
#include <muster/data/web_dataset.h>
#include <muster/vision/image_folder.h>
#include <stdexcept>

#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kMds =
    R"({"shards": [{"column_names": ["x"], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": "shard.00000.mds", "bytes": 15487, "hashes": {}}, "samples": 12, "version": 2, "zip_data": null},
{"format": "mds", "raw_data": {"basename": "shard.00001.mds"}, "zip_data": {"basename": "shard.00001.mds.zstd", "bytes": 8225}}], "version": 2})";
constexpr const char* kLitdata =
    R"({"chunks": [{"chunk_bytes": 8048, "chunk_size": 10, "dim": 1000, "filename": "chunk-0-0.bin"}], "config": {"compression": null, "data_format": ["no_header_tensor:18"]}, "updated_at": "1795992903.4"})";

class StreamFolder : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& contents) {
    std::ofstream(scratch_ / name, std::ios::binary) << contents;
    return scratch_ / name;
  }
  static void expect_refused(const std::string& path, const std::string& what) {
    const auto named = ThrowsMessage<std::runtime_error>(
        AllOf(HasSubstr("cannot use " + path + ": it belongs to a data set of " + what),
              HasSubstr("webdataset.ShardWriter")));
    EXPECT_THAT([&] { WebDataset({path}, [](const WebSample& sample) { return sample; }); }, named) << path;
    EXPECT_THAT([&] { TokenDataset(path, {.context = 4}); }, named) << path;
    EXPECT_THAT([&] { CsvDataset(path, {.label = "x"}); }, named) << path;
    EXPECT_THAT([&] { ImageFolder{path}; }, named) << path;
  }

  ScratchDirectory scratch_;
};

TEST_F(StreamFolder, EachDataSetNamesMdsAndWhatToDo) {
  const std::string bytes("\x0c\0\0\0\x0e\x01\0\0\xff\x05\0\0", 12);
  for (const std::string& path :
       {file("index.json", kMds), file("shard.00000.mds", bytes),
        file("shard.00001.mds.zstd", "\x28\xb5\x2f\xfd and so on"), scratch_.path().string()})
    expect_refused(path, "MosaicML's MDS, which Python's streaming.StreamingDataset reads");
}

TEST_F(StreamFolder, EachDataSetNamesLitdataAndWhatToDo) {
  const std::string bytes("\x0a\0\0\0\x30\0\0\0", 8);
  for (const std::string& path :
       {file("index.json", kLitdata), file("chunk-0-0.bin", bytes), scratch_.path().string()})
    expect_refused(path, "litdata, which Python's litdata.StreamingDataset reads");
}

// An index.json of another kind is ignored, as are indexes that do not name the file.
TEST_F(StreamFolder, OtherFilesNextToAnIndexAreRead) {
  const std::string tokens = file("train.bin", std::string("\1\0\2\0\3\0\4\0", 8)),
                    table = file("a.csv", "x,y\n1,2\n");
  for (const char* text : {kMds, kLitdata, "{\"shards\": 3, \"chunks\": {\"filename\": []}}", "[", "[[]]"}) {
    file("index.json", text);
    EXPECT_EQ(TokenDataset(tokens, {.context = 3}).size(), 1) << text;
    EXPECT_EQ(CsvDataset(table, {.label = "y"}).size(), 1) << text;
  }
}

}  // namespace
}  // namespace muster
