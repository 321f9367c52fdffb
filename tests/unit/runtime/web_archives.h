// Writes archives with GNU tar for tests of WebDataset, and reads their samples.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <muster/data/web_dataset.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/scratch_directory.h"

namespace muster::web {

using Files = std::vector<std::pair<std::string, std::string>>;

class WebArchives : public testing::Test {
 protected:
  // Writes an archive of these files, in this order, and gives its path.
  std::string archive(const std::string& name, const Files& files,
                      const std::string& options = "--format=gnu") {
    const std::string folder = scratch_ / (name + ".files"), path = scratch_ / name;
    std::ofstream list(path + ".list");
    for (const auto& [file, contents] : files) {
      std::filesystem::create_directories(std::filesystem::path(folder + "/" + file).parent_path());
      write_with_holes(folder + "/" + file, contents);
      list << file << '\n';
    }
    list.close();
    const std::string command = "tar " + options + " -C " + folder + " -cf " + path + " -T " + path + ".list";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT: the words are the test's
    return path;
  }
  // An archive with the samples first .. last - 1. Each sample holds its number.
  std::string numbers(const std::string& name, int first, int last) {
    Files files;
    for (int i = first; i < last; ++i)
      files.emplace_back(std::to_string(i) + ".cls", std::to_string(i) + "\n");
    return archive(name, files);
  }

  ScratchDirectory scratch_;

 private:
  // Blocks of zeros become holes, so that tar takes the file for sparse.
  static void write_with_holes(const std::string& path, const std::string& contents) {
    constexpr std::size_t kBlock = 4096;
    std::ofstream file(path, std::ios::binary);
    for (std::size_t at = 0; at < contents.size(); at += kBlock) {
      const std::string block = contents.substr(at, kBlock);
      if (block.find_first_not_of('\0') == std::string::npos) continue;
      file.seekp(static_cast<std::streamoff>(at));
      file << block;
    }
    file.close();
    std::filesystem::resize_file(path, contents.size());
  }
};

inline WebSample as_it_is(const WebSample& sample) {
  return sample;
}
inline std::int64_t number_of(const WebSample& sample) {
  return sample.number("cls");
}

template <class Stream>
auto all_of(const Stream& dataset, const Shard& shard = {}) {
  std::vector<typename Stream::Sample> samples;
  const auto reader = dataset.open(shard);
  while (auto sample = reader->next()) samples.push_back(*std::move(sample));
  return samples;
}

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace muster::web
