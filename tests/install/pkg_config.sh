#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# pkg_config.sh LIBRARY_FOLDER WORK_FOLDER CC CXX: compiles the consumers with what pkg-config says, and runs them.
set -euo pipefail
library_folder=$1 work_folder=$2 cc=$3 cxx=$4
consumer=$(dirname "$0")/consumer

export PKG_CONFIG_PATH=$library_folder/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs hocket)"
strict=(-Wall -Wextra -pedantic -Werror)
rpath=-Wl,-rpath,$library_folder

"$cc" -std=c99 "${strict[@]}" "$consumer/consumer.c" "${flags[@]}" "$rpath" -o "$work_folder/consumer_c"
"$cxx" -std=c++17 "${strict[@]}" "$consumer/consumer.cc" "${flags[@]}" "$rpath" -o "$work_folder/consumer_cc"
"$work_folder/consumer_c"
"$work_folder/consumer_cc"
