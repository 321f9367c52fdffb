// The order in which a rank wrote to its two streams, in order.log beside their files: a line `STREAM BYTES`
// for each run of bytes that bytes of the other stream followed, and none for the last run.
//
// Without order.log the two files could not be put together again. A rank that writes to one stream only has
// no such file. Shared by the rank's two outputs; one thread.
#pragma once

#include <fmt/core.h>
#include <memory>
#include <string>

#include "common/net/log_writer.h"

namespace muster::agent {

class LogOrder {
 public:
  LogOrder(net::LogWriter& writer, const std::string& rank_directory)
      // What is wrong with the disk is told by the streams' own files.
      : file_(writer.add(std::make_unique<net::LogParts>(rank_directory + "/order.log", UniqueFd(), nullptr),
                         [](const std::string&) {})) {}

  const std::shared_ptr<net::LogWriter::File>& file() const { return file_; }
  // These bytes go to their own file next.
  void add(int stream, std::size_t bytes) {
    if (stream != stream_ && bytes_ > 0) {
      file_->put(fmt::format("{} {}\n", stream_, bytes_));
      bytes_ = 0;
    }
    stream_ = stream;
    bytes_ += bytes;
  }

 private:
  std::shared_ptr<net::LogWriter::File> file_;
  int stream_ = 0;
  std::size_t bytes_ = 0;  // of the newest run
};

}  // namespace muster::agent
