#!/usr/bin/env bash
# torch 2.15.0, C++: if a parameter group's options equal their type's defaults, an optimizer replaces them with its own, as if they had not been
# set. AdamW's default rate is 1e-3: a group that asks for 1e-3 in an optimizer of rate 0.5 trains at 0.5. In Python the group keeps its value.
# Seen since 2.12.0; in 2.11.0 the group keeps its value.
# Seen with 2.15.0: "lr 0.5 (asked for 0.001), weight_decay 0.2 (asked for 0.01)".
# usage: group_option_of_default_value_is_lost.sh   (PYTHON=... takes an environment with torch 2.15.0 instead of installing one: 5 GB; needs c++)
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv" && PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install -q --no-cache-dir torch==2.15.0 numpy
fi
torch=$("$PYTHON" -c 'import torch; assert torch.__version__.startswith("2.15.0"); print(torch.__path__[0])')
cat >"$folder/groups.cc" <<'C'
#include <iostream>
#include <torch/torch.h>
int main() {
  using torch::optim::AdamWOptions;
  const auto own = torch::zeros({1}, torch::requires_grad());
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{own}, std::make_unique<AdamWOptions>(AdamWOptions(1e-3).weight_decay(0.01)));
  torch::optim::AdamW optimizer(groups, AdamWOptions(0.5).weight_decay(0.2));
  const auto& options = static_cast<const AdamWOptions&>(optimizer.param_groups()[0].options());
  std::cout << "lr " << options.lr() << " (asked for 0.001), weight_decay " << options.weight_decay() << " (asked for 0.01)\n";
}
C
libraries=("$torch/lib")
for place in "$torch"/../nvidia/*/lib; do libraries+=("$place"); done
c++ -std=c++20 -I"$torch/include" -I"$torch/include/torch/csrc/api/include" "$folder/groups.cc" -o "$folder/groups" \
  "${libraries[@]/#/-Wl,-rpath,}" "${libraries[@]/#/-Wl,-rpath-link,}" -L"$torch/lib" -ltorch_cpu -lc10
said=$("$folder/groups")
echo "$said"
[[ $said == "lr 0.5 (asked for 0.001), weight_decay 0.2 (asked for 0.01)" ]]
