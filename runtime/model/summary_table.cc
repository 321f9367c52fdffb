#include <algorithm>
#include <fmt/ranges.h>
#include <muster/model/summary.h>

#include "runtime/model/numbers.h"

namespace muster {
namespace {

std::string label(const LayerSummary& layer) {
  const std::size_t dot = layer.name.rfind('.');
  return std::string(static_cast<std::size_t>(2 * layer.depth), ' ') +
         (layer.depth == 0 ? layer.type : layer.name.substr(dot == std::string::npos ? 0 : dot + 1));
}

std::string shape(const LayerSummary& layer) {
  return layer.output_shape ? fmt::format("[{}]", fmt::join(*layer.output_shape, ", ")) : "-";
}

std::string own_parameters(const LayerSummary& layer) {
  if (layer.parameters == 0) return "-";
  return with_commas(layer.parameters) + (layer.trainable < layer.parameters ? " frozen" : "");
}

}  // namespace

std::string ModelSummary::table() const {
  std::size_t names = 5, types = 4, shapes = 12;
  for (const LayerSummary& layer : layers) {
    names = std::max(names, label(layer).size());
    types = std::max(types, layer.type.size());
    shapes = std::max(shapes, shape(layer).size());
  }
  const auto line = [&](const std::string& name, const std::string& type, const std::string& output,
                        const std::string& count) {
    return fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", name, names, type, types, output, shapes, count);
  };
  std::string text = line("layer", "type", "output shape", "parameters");
  for (const LayerSummary& layer : layers)
    text += line(label(layer), layer.type, shape(layer), own_parameters(layer));
  text += fmt::format("{} parameters: {} trainable, {} frozen\n", with_commas(this->parameters),
                      with_commas(trainable), with_commas(this->parameters - trainable));
  text += fmt::format("memory: parameters {}, gradients {}, buffers {}", in_mib(parameter_bytes),
                      in_mib(gradient_bytes), in_mib(buffer_bytes));
  if (activation_bytes)
    text += fmt::format(", activations {} (at most {} in the forward pass)", in_mib(*activation_bytes),
                        in_mib(peak_bytes.value_or(*activation_bytes)));
  return text + "\n";
}

}  // namespace muster
