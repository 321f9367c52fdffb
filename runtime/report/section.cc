#include <muster/section.h>

#include "runtime/report/sections.h"

namespace muster {

Section::Section(std::string_view name) : id_(enter_section(name)) {}
Section::~Section() {
  leave_section(id_);
}

}  // namespace muster
