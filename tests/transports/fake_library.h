// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// For whole programs over devices that are not there.
#pragma once

namespace hocket::test {

// The fake (fake_verbs.h), with two ports, takes the place of libibverbs, before anybody looks for that.
void stand_in_for_libibverbs();

}  // namespace hocket::test
