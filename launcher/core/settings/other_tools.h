// Words and flags of other tools (kubectl, docker, Slurm, mpirun, DeepSpeed), and what serves their purpose
// here: for messages about a word or a flag that launch does not have. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace muster::launcher {

// Returns the advice for a word with which other tools manage jobs: "to stop a job: `launch cancel`". Returns
// nullopt for any other word. To start a program of such a name, a user gives `--` or its path.
std::optional<std::string_view> purpose_of_word(std::string_view word);

// Whether this is a program of another project that starts jobs: torchrun, srun, mpirun.
bool is_launcher(std::string_view word);

// The same as purpose_of_word() for a flag, without its dashes, of the command `owner` ("launch", "launch
// logs").
std::optional<std::string_view> purpose_of_flag(std::string_view owner, std::string_view flag);

}  // namespace muster::launcher
