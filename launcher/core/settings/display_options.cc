#include "launcher/core/settings/display_options.h"

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

Expected<DisplayOptions> make_display_options(const Settings& settings) {
  SettingReader reader(settings);
  bool fold = false;
  bool no_fold = false;
  reader.flag("fold", fold);
  reader.flag("no-fold", no_fold);
  DisplayOptions options;
  reader.text("log-line-prefix-template", options.line_prefix);
  if (fold && !options.line_prefix.empty())
    reader.refuse(*reader.find("log-line-prefix-template"),
                  "prefixes the lines of a single rank: leave out --fold");
  if (reader.error()) return std::unexpected(*reader.error());
  if (fold && no_fold)
    return failure(ErrorCode::kInvalidArgument, "--fold and --no-fold exclude each other: give one of them");
  if (fold || no_fold || !options.line_prefix.empty()) options.fold = fold;
  return options;
}

}  // namespace muster::launcher
