#include <muster/rank/section.h>

#include "runtime/rank/sections.h"

namespace muster {

Section::Section(std::string_view name) : id_(enter_section(name)) {}
Section::~Section() {
  leave_section(id_);
}

}  // namespace muster
