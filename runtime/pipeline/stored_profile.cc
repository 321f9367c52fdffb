#include "runtime/pipeline/stored_profile.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/wire/digest.h"
#include "common/wire/json.h"

namespace muster {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerProfile, name, parameters, parameter_bytes, forward, input, weight,
                                   activation_bytes, input_bytes, output_shapes, separable)
}  // namespace muster

namespace muster {

namespace {

constexpr std::uint64_t kLongestProfileBytes = 64 << 20;
constexpr std::size_t kDigitsInName = 16;

nlohmann::json measured_by(const PipelineLayers& layers, const std::vector<at::Tensor>& microbatch,
                           const Group& group) {
  nlohmann::json names = nlohmann::json::array();
  for (int i = 0; i < layers.size(); ++i) names.push_back(layers.name(i));
  nlohmann::json inputs = nlohmann::json::array();
  for (const at::Tensor& each : microbatch)
    inputs.push_back({{"shape", each.sizes().vec()},
                      {"type", c10::toString(each.scalar_type())},
                      {"device", c10::DeviceTypeName(each.device().type(), /*lower_case=*/true)}});
  return {{"layers", names}, {"inputs", inputs}, {"ranks", group.ranks()}};
}

}  // namespace

nlohmann::json json_of_profile(const std::vector<LayerProfile>& profile) {
  return profile;
}

std::vector<LayerProfile> profile_of_json(const nlohmann::json& json) {
  return json.get<std::vector<LayerProfile>>();
}

StoredProfile::StoredProfile(std::string directory, const PipelineLayers& layers,
                             const std::vector<at::Tensor>& microbatch, const Group& group)
    : directory_(std::move(directory)),
      of_(measured_by(layers, microbatch, group)),
      path_(fmt::format("{}/layer_profile.{}.json", directory_,
                        xxh3_digest(of_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
                            .substr(0, kDigitsInName))) {}

std::vector<LayerProfile> StoredProfile::read() const {
  const auto text = read_regular_file(path_, kLongestProfileBytes);
  if (!text) return {};
  try {
    const nlohmann::json stored = parse_shallow_json(*text, Fractions::kTaken);
    if (stored.at("measured") != of_) return {};
    return profile_of_json(stored.at("profile"));
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

void StoredProfile::write(const std::vector<LayerProfile>& profile) const {
  const nlohmann::json all{{"measured", of_}, {"profile", json_of_profile(profile)}};
  const std::string text = all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  Status done = make_directories_durably(directory_);
  if (done) done = write_file_durably(path_, text);
  if (!done)
    log::warning("profile_layers: a restart will measure again, and may cut the model elsewhere: {}",
                 done.error().message());
}

}  // namespace muster
