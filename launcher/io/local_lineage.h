// A lineage (lineage.h) that is stored in a checkpoint directory.
//
// Blocking: each call reads and writes the directory, and answers before it returns. One thread.
#pragma once

#include "common/checkpoint/directory.h"
#include "launcher/io/lineage.h"

namespace muster::launcher {

class LocalLineage final : public Lineage {
 public:
  // `path` is the checkpoint directory. If it is empty, the job has none, and no other function may be
  // called.
  LocalLineage(std::string path, std::string job_id)
      : directory_(std::move(path)), job_id_(std::move(job_id)) {}
  void begin_attempt(const BeginAttempt& wish, OnBegun begun, OnDenied denied) override;
  void newest_commit(const LookForCheckpoint& wish, OnFound found) override;

 private:
  CheckpointDirectory directory_;
  std::string job_id_;
};

}  // namespace muster::launcher
