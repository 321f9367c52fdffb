#include "agent/core/health/xid.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(Xid, DistinguishesErrorsOfTheProgramAndTheHardware) {
  for (const int number : {13, 31, 43, 45}) EXPECT_EQ(describe_xid(number).fault_class, XidClass::kProgram);
  for (const int number : {48, 63, 64, 74, 94, 95})
    EXPECT_EQ(describe_xid(number).fault_class, XidClass::kHardware) << number;
  for (const int number : {79, 119}) EXPECT_EQ(describe_xid(number).fault_class, XidClass::kLost) << number;
  EXPECT_EQ(describe_xid(79).text, "XID 79: GPU has fallen off the bus");
}

TEST(Xid, CountsAnUnknownNumberAsHardware) {
  EXPECT_EQ(describe_xid(9999).fault_class, XidClass::kHardware);
  EXPECT_EQ(describe_xid(9999).text, "XID 9999");
}

}  // namespace
}  // namespace muster::agent
