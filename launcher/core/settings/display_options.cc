#include "launcher/core/settings/display_options.h"

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

Expected<DisplayOptions> make_display_options(const Settings& settings) {
  SettingReader reader(settings);
  bool fold = false;
  bool no_fold = false;
  reader.flag("fold", fold);
  reader.flag("no-fold", no_fold);
  bool no_prefix = false;
  reader.flag("no-prefix", no_prefix);
  DisplayOptions options;
  std::string prefix;
  reader.text("log-line-prefix-template", prefix);
  if (!prefix.empty() || no_prefix) options.line_prefix = no_prefix ? "" : prefix;
  if (fold && !prefix.empty())
    reader.refuse(*reader.find("log-line-prefix-template"),
                  "prefixes the lines of a single rank: leave out --fold");
  if (reader.error()) return std::unexpected(*reader.error());
  if (fold && no_fold)
    return failure(ErrorCode::kInvalidArgument, "--fold and --no-fold exclude each other: give one of them");
  if (no_prefix && fold)
    return failure(ErrorCode::kInvalidArgument,
                   "--no-prefix and --fold exclude each other: a folded line names its ranks");
  if (fold || no_fold || options.line_prefix) options.fold = fold;
  return options;
}

}  // namespace muster::launcher
