#include "runtime/pipeline/agreement.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <muster/pipeline/pipeline_layers.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/pipeline/checked_schedule.h"
#include "common/pipeline/make_schedule.h"
#include "common/wire/digest.h"
#include "runtime/parallel/verification.h"
#include "runtime/pipeline/exchange.h"
#include "runtime/pipeline/stage_runner.h"

namespace muster {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLongestFileBytes = 16 << 20;

template <class Value>
Value value_or_refuse(Expected<Value> value) {
  if (!value) refuse_pipeline(value.error().message());
  return std::move(*value);
}

// If the ranks have different settings, throws an error. This check comes before any computation with the
// settings.
void require_agreement(const std::string& name, const std::string& file, int n_microbatches, int num_stages,
                       const PipelineOptions& options, const Group& group) {
  const ModelDescription agreed{
      {"schedule", name},
      {"number of microbatches", fmt::to_string(n_microbatches)},
      {"number of stages", fmt::to_string(num_stages)},
      {"option scale_grads", fmt::to_string(options.scale_grads)},
      {"option recompute", fmt::to_string(options.recompute)},
      {"option seed", fmt::to_string(options.seed)},
      {"option tied_weights", fmt::format("{}", fmt::join(options.tied_weights, ", "))},
      {"schedule file", file}};
  require_equal_on_all_ranks(group, "the pipeline", agreed);
}

Schedule schedule_for(const std::string& name, const std::string& csv, int n_microbatches, int num_stages,
                      int ranks) {
  if (n_microbatches < 1)
    refuse_pipeline(fmt::format("n_microbatches is {}; it must be at least 1", n_microbatches));
  Schedule schedule;
  if (!csv.empty()) {
    schedule = value_or_refuse(parse_schedule(csv));
    if (static_cast<int>(schedule.ranks.size()) != ranks || schedule.stages != num_stages ||
        schedule.microbatches != n_microbatches)
      refuse_pipeline(fmt::format(
          "{} is for {} ranks, {} stages and {} microbatches; this pipeline has {}, {} and {}", name,
          schedule.ranks.size(), schedule.stages, schedule.microbatches, ranks, num_stages, n_microbatches));
  } else {
    if (num_stages % ranks != 0)
      refuse_pipeline(fmt::format("{} stages cannot be shared equally by {} ranks", num_stages, ranks));
    schedule = value_or_refuse(
        make_schedule(name, {.ranks = ranks, .microbatches = n_microbatches, .chunks = num_stages / ranks}));
  }
  if (const Status good = check_schedule(schedule); !good)
    refuse_pipeline(fmt::format("{}: {}", name, good.error().message()));
  return schedule;
}

Json description_of(const std::vector<PipelineStage>& stages, const std::vector<std::string>& tied) {
  Json all = Json::array();
  for (const PipelineStage& stage : stages) {
    const auto* const of_layers = dynamic_cast<const StageModule*>(stage.module().get());
    Json parameters = Json::array();
    for (const auto& each : stage.module()->named_parameters()) {
      const bool may_be_tied = std::ranges::find(tied, each.key()) != tied.end() ||
                               (of_layers != nullptr && of_layers->shares(each.key()));
      parameters.push_back({each.key(), text_of(std::vector{kind_of_tensor(each.value())}), may_be_tied,
                            static_cast<int>(each.value().scalar_type())});
    }
    all.push_back(
        {{"stage", stage.stage_index()}, {"of", stage.num_stages()}, {"parameters", std::move(parameters)}});
  }
  return all;
}

void describe_parameters(const std::vector<Json>& members, PipelineAgreement& agreed) {
  std::set<std::string> names;
  std::optional<at::ScalarType> type;
  for (const Json& stages : members) {
    for (const Json& stage : stages) {
      for (const Json& parameter : stage.at("parameters")) {
        names.insert(parameter.at(0).get<std::string>());
        const auto own = c10::toRealValueType(static_cast<at::ScalarType>(parameter.at(3).get<int>()));
        if (c10::isFloatingType(own)) type = type ? c10::promoteTypes(*type, own) : own;
      }
    }
  }
  agreed.parameters.assign(names.begin(), names.end());
  agreed.norm_type = type.value_or(at::kFloat);
}

std::vector<int> stages_of(const Json& description) {
  std::vector<int> stages;
  for (const Json& each : description) stages.push_back(each.at("stage").get<int>());
  return stages;
}

void require_stages(const std::string& name, const Schedule& schedule, const std::vector<Json>& members,
                    const Group& group) {
  const std::vector<int> ranks = ranks_of_stages(schedule);
  for (std::size_t place = 0; place < members.size(); ++place) {
    std::vector<int> right;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      if (ranks[static_cast<std::size_t>(stage)] == static_cast<int>(place)) right.push_back(stage);
    }
    for (const Json& each : members[place]) {
      if (each.at("of").get<int>() != schedule.stages)
        refuse_pipeline(fmt::format("rank {} has a stage of {} stages, others have stages of {}",
                                    group.ranks()[place], each.at("of").get<int>(), schedule.stages));
    }
    const std::vector<int> given = stages_of(members[place]);
    if (given != right)
      refuse_pipeline(
          fmt::format("rank {} has the stages [{}]; with {} of {} stages on {} ranks it must have [{}]",
                      group.ranks()[place], fmt::join(given, ", "), name, schedule.stages, members.size(),
                      fmt::join(right, ", ")));
  }
}

struct Holder {
  int stage;
  int rank;  // in the job
  std::string kind;
  bool may_be_tied;
};

void require_tied(const std::string& name, const std::vector<Holder>& all) {
  for (const Holder& each : all) {
    if (!each.may_be_tied)
      refuse_pipeline(
          fmt::format("parameter '{}' is in the stages {} and {}: "
                      "parameters must have the names of the undivided model; "
                      "if the model has this weight only once, list it in tied_weights",
                      name, all[0].stage, all[1].stage));
    if (each.kind != all[0].kind)
      refuse_pipeline(fmt::format("parameter '{}' is {} in stage {} and {} in stage {}", name, all[0].kind,
                                  all[0].stage, each.kind, each.stage));
  }
}

std::vector<TiedWeight> tied_weights_of(const std::vector<Json>& members, const Group& group,
                                        const std::vector<PipelineStage>& stages,
                                        const std::vector<std::string>& listed) {
  std::map<std::string, std::vector<Holder>> holders;
  for (std::size_t place = 0; place < members.size(); ++place) {
    for (const Json& stage : members[place]) {
      for (const Json& parameter : stage.at("parameters"))
        holders[parameter.at(0).get<std::string>()].push_back(
            {stage.at("stage").get<int>(), group.ranks()[place], parameter.at(1).get<std::string>(),
             parameter.at(2).get<bool>()});
    }
  }
  for (const std::string& name : listed) {
    const auto found = holders.find(name);
    if (found == holders.end() || found->second.size() < 2)
      refuse_pipeline(fmt::format("tied_weights names '{}', but {} it", name,
                                  found == holders.end() ? "no stage has" : "only one stage has"));
  }
  std::vector<TiedWeight> tied;
  const int here = group.job().rank();
  for (auto& [name, all] : holders) {
    if (all.size() < 2) continue;
    std::ranges::sort(all, {}, &Holder::stage);
    require_tied(name, all);
    TiedWeight weight{.name = name, .ranks = {}, .first_rank = all[0].rank, .here = {}};
    std::set<int> ranks;
    for (const Holder& each : all) ranks.insert(each.rank);
    if (!ranks.contains(here)) continue;
    weight.ranks.assign(ranks.begin(), ranks.end());
    weight.counts_elsewhere = all[0].rank != here;
    for (const PipelineStage& stage : stages) {
      const auto parameters = stage.module()->named_parameters();
      if (const at::Tensor* found = parameters.find(name)) weight.here.push_back(*found);
    }
    tied.push_back(std::move(weight));
  }
  return tied;
}

}  // namespace

void refuse_pipeline(const std::string& what) {
  throw std::invalid_argument("pipeline: " + what);
}

PipelineAgreement agree_about_pipeline(const std::string& name, const std::vector<PipelineStage>& stages,
                                       int n_microbatches, const PipelineOptions& options) {
  const Group& group = stages.front().group();
  const int num_stages = stages.front().num_stages();
  std::string csv;
  std::string file = "none";  // its checksum, or why it cannot be read
  if (name.ends_with(".csv")) {
    if (auto read = read_file(name, kLongestFileBytes)) {
      csv = std::move(*read);
      file = csv.empty() ? "empty" : xxh3_digest(csv);
    } else {
      file = one_line(read.error().message());
    }
  }
  require_agreement(name, file, n_microbatches, num_stages, options, group);
  if (name.ends_with(".csv") && csv.empty()) refuse_pipeline(fmt::format("schedule file {}: {}", name, file));
  PipelineAgreement agreed;
  agreed.schedule = schedule_for(name, csv, n_microbatches, num_stages, group.size());
  const std::vector<Json> members = all_gather_object(group, description_of(stages, options.tied_weights));
  require_stages(name, agreed.schedule, members, group);
  agreed.tied = tied_weights_of(members, group, stages, options.tied_weights);
  describe_parameters(members, agreed);
  if (options.replicas) {
    ModelDescription described;
    for (const Json& stage : members[static_cast<std::size_t>(group.rank())]) {
      for (const Json& parameter : stage.at("parameters"))
        described.emplace_back(fmt::format("stage {}, parameter '{}'", stage.at("stage").get<int>(),
                                           parameter.at(0).get<std::string>()),
                               parameter.at(1).get<std::string>());
    }
    require_equal_on_all_ranks(*options.replicas, "replicas of a pipeline's stages: the model", described);
  }
  return agreed;
}

}  // namespace muster
