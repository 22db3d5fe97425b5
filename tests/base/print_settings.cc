// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Prints docs/settings.md.
#include <cstdio>

#include "base/settings.h"

int main() { std::fputs(hocket::settings_markdown().c_str(), stdout); }
