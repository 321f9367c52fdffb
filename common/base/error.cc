#include "common/base/error.h"

#include <cerrno>
#include <system_error>

namespace muster {

namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::kNotFound;
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG: return ErrorCode::kInvalidArgument;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::kPermission;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH: return ErrorCode::kUnavailable;
    case ETIMEDOUT: return ErrorCode::kTimedOut;
    default: return ErrorCode::kInternal;
  }
}

}  // namespace

std::unexpected<Error> system_failure(std::string_view what, int error_number) {
  return failure(code_of(error_number), "{}: {}", what, std::generic_category().message(error_number));
}

}  // namespace muster
