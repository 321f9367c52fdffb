// Numbers and names of the format of Optuna's journal storage (optuna/storages/journal), and how Python's
// json module writes numbers that JSON does not have.
//
// For optuna.cc, which writes the format, and optuna_import.cc, which reads it. Pure.
#pragma once

namespace muster::launcher::sweep::optuna {

enum Operation {
  kCreateStudy,
  kDeleteStudy,
  kSetStudyUserAttribute,
  kSetStudySystemAttribute,
  kCreateTrial,
  kSetTrialParameter,
  kSetTrialState,
  kSetIntermediateValue,
  kSetTrialUserAttribute,
  kSetTrialSystemAttribute,
  kDiscardTrials,
};
enum State { kRunning, kComplete, kPruned, kFail, kWaiting };
enum Direction { kMinimize = 1, kMaximize = 2 };

inline constexpr const char* kMetricNames = "study:metric_names";  // a system attribute of a study
// Attributes of ours.
inline constexpr const char* kSpace = "muster:space";
inline constexpr const char* kState = "muster:state";
inline constexpr const char* kWhy = "muster:why";

inline constexpr const char* kNaN = "NaN";
inline constexpr const char* kInfinity = "Infinity";
inline constexpr const char* kMinusInfinity = "-Infinity";

}  // namespace muster::launcher::sweep::optuna
