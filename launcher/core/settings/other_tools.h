// Words and flags of other tools, such as kubectl, docker, Slurm, mpirun and DeepSpeed, and what serves the
// same purpose in launch. They are for messages about a word or a flag that launch does not have. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace muster::launcher {

// Some tools have a word for managing jobs. Returns the advice for such a word: "to stop a job: `launch
// cancel`". Returns nullopt for any other word. A user who wants to start a program of this name writes `--`
// before it, or its path.
std::optional<std::string_view> purpose_of_word(std::string_view word);

// Returns whether this is a program of another project that starts jobs, such as torchrun, srun or mpirun.
bool is_launcher(std::string_view word);

// Like purpose_of_word(), but for a flag of the command `owner`, such as "launch" or "launch logs". `flag`
// has no dashes.
std::optional<std::string_view> purpose_of_flag(std::string_view owner, std::string_view flag);

}  // namespace muster::launcher
