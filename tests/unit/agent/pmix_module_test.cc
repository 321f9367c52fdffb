#include <chrono>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pmix.h>
#include <pmix_server.h>
#include <semaphore>

#include "agent/io/mpi/pmix_library.h"
#include "tests/scratch_directory.h"

namespace muster::agent {
namespace {

using namespace std::chrono_literals;

struct NobodyAsks final : PmixListener {
  void asked(wire::MpiAsked, std::optional<std::chrono::seconds>) override {}
  void remarked(std::string) override {}
};

std::binary_semaphore stuck{0};
std::binary_semaphore released{0};

void stay_in_the_librarys_thread(std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t*, std::size_t,
                                 pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done,
                                 void* context) {
  stuck.release();
  released.acquire();
  done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
}

class PmixModule : public testing::Test {
 protected:
  void SetUp() override {
    void* const module = dlopen(PMIX_MODULE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(module, nullptr) << dlerror();
    pmix_ = reinterpret_cast<Pmix* (*)()>(dlsym(module, "muster_pmix"))();
  }
  Status open() { return pmix_->open({"attempt", scratch_.path(), {2}, 0}, listener_); }

  ScratchDirectory scratch_;
  NobodyAsks listener_;
  Pmix* pmix_ = nullptr;
};

// Keeps the library busy with an event that it reports to this process.
TEST_F(PmixModule, ALibraryThatDoesNotAnswerFailsTheAttemptAndNotTheAgent) {
  ASSERT_TRUE(open());
  pmix_status_t code = PMIX_ERR_JOB_TERMINATED;
  ASSERT_GE(PMIx_Register_event_handler(&code, 1, nullptr, 0, stay_in_the_librarys_thread, nullptr, nullptr),
            0);
  ASSERT_EQ(PMIx_Notify_event(code, nullptr, PMIX_RANGE_PROC_LOCAL, nullptr, 0, nullptr, nullptr),
            PMIX_SUCCESS);
  ASSERT_TRUE(stuck.try_acquire_for(20s));

  pmix_->close();
  const Status opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message(), "PMIx: registering the job: the library does not answer");
  pmix_->close();
  pmix_->end();
  released.release();  // the library still has the request
  ASSERT_EQ(PMIx_Notify_event(code, nullptr, PMIX_RANGE_PROC_LOCAL, nullptr, 0, nullptr, nullptr),
            PMIX_SUCCESS);
  ASSERT_TRUE(stuck.try_acquire_for(20s)) << "the library handles it after all of that";
  released.release();
}

}  // namespace
}  // namespace muster::agent
