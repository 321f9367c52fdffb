#include "launcher/core/display_options.h"

#include "launcher/core/setting_reader.h"

namespace muster::launcher {

Expected<DisplayOptions> make_display_options(const Settings& settings) {
  SettingReader reader(settings);
  bool fold = false;
  bool no_fold = false;
  reader.flag("fold", fold);
  reader.flag("no-fold", no_fold);
  if (reader.error()) return std::unexpected(*reader.error());
  if (fold && no_fold)
    return failure(ErrorCode::kInvalidArgument, "--fold and --no-fold exclude each other: give one of them");
  DisplayOptions options;
  if (fold || no_fold) options.fold = fold;
  return options;
}

}  // namespace muster::launcher
