// Records in which order a rank wrote to its two streams, in order.log next to their files: a line `STREAM
// BYTES` for each run of bytes that was followed by bytes of the other stream; none for the last run.
//
// order.log allows the two files to be merged again. A rank that writes to only one stream has no such file.
// Shared by the rank's two outputs; one thread.
#pragma once

#include <fmt/core.h>
#include <memory>
#include <string>

#include "common/net/log_writer.h"

namespace muster::agent {

class LogOrder {
 public:
  LogOrder(net::LogWriter& writer, const std::string& rank_directory)
      // The streams' own files report errors of the disk.
      : file_(writer.add(std::make_unique<net::LogParts>(rank_directory + "/order.log", UniqueFd(), nullptr),
                         [](const std::string&) {})) {}

  const std::shared_ptr<net::LogWriter::File>& file() const { return file_; }
  // The caller writes these bytes to the stream's own file next.
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
