// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "fake_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "fake_verbs.h"

namespace hocket::test {

void stand_in_for_libibverbs() {
  reset_fake_verbs();
  set_two_fake_ports();
  ::setenv("SYSFS_PATH", FAKE_SYSFS, 1);  // which has a device
  void* const library = ::dlopen(FAKE_IBVERBS, RTLD_NOW | RTLD_GLOBAL);
  const auto use = reinterpret_cast<void (*)(const VerbsTable*)>(::dlsym(library, "use_verbs_table"));
  use(*fake_verbs());
}

}  // namespace hocket::test
