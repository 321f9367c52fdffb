// Stores the profile of a model's layers in the checkpoint directory. After a restart, the job reads it
// instead of measuring again. A new measurement would differ a little, and the model could then be split
// elsewhere.
//
// Each combination of layer names, kinds of inputs and ranks has its own file. The functions block. If the
// file cannot be read or written, they do not throw.
#pragma once

#include <muster/comm/group.h>
#include <muster/pipeline/pipeline_layers.h>
#include <muster/pipeline/pipeline_split.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster {

nlohmann::json json_of_profile(const std::vector<LayerProfile>& profile);
// Throws nlohmann::json::exception if the value is not a profile.
std::vector<LayerProfile> profile_of_json(const nlohmann::json& json);

class StoredProfile {
 public:
  StoredProfile(std::string directory, const PipelineLayers& layers,
                const std::vector<at::Tensor>& microbatch, const Group& group);

  const std::string& path() const { return path_; }
  // Returns nothing if there is no file or the file cannot be used.
  std::vector<LayerProfile> read() const;
  // Replaces the file. If that is impossible, logs a warning.
  void write(const std::vector<LayerProfile>& profile) const;

 private:
  std::string directory_;
  nlohmann::json of_;  // what the times depend on
  std::string path_;
};

}  // namespace muster
