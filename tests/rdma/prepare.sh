#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# prepare.sh FOLDER: makes what guest.sh boots, Debian's kernel (not installed) and a small first file system with
# Soft-RoCE, in a folder below FOLDER named after what it is made of, and prints that folder. A second call finds it
# there. Exits with 77, and the reason, where it cannot be had.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
readonly here modules=(crc32_pclmul crc32_generic virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay rdma_rxe ib_uverbs rdma_ucm sch_netem)

skip() {
  echo "skipped: no RDMA guest here: $*" >&2
  exit 77
}

# The kernel is an ELF file, packed somewhere within the image.
extract_kernel() {
  local image=$1 offset
  while IFS=: read -r offset _; do
    tail -c "+$((offset + 1))" "$image" | xz -dcq 2>/dev/null >vmlinux || true
    [[ $(head -c 4 vmlinux) != $'\x7fELF' ]] || return 0
  done < <(grep -aboP '\xFD7zXZ\x00' "$image")
  return 1
}

fetch_kernel() {
  apt-get download -qq "$package" >apt.log 2>&1 || skip "cannot download $package ($(tail -n 1 apt.log))"
  dpkg -x "$package"_*.deb kernel
  rm -f "$package"_*.deb
  version=$(ls kernel/lib/modules)
  depmod -b kernel "$version"
  extract_kernel "kernel/boot/vmlinuz-$version" || skip "cannot unpack the kernel of $package"
}

make_first_file_system() {
  local module path
  mkdir -p first/{bin,modules,proc,sys,dev,newroot}
  cp "$(command -v busybox)" first/bin/busybox
  install -m 755 "$here/guest-init" first/init
  for module in "${modules[@]}"; do
    modprobe -d kernel -S "$version" --show-depends "$module" || skip "the kernel of $package has no module $module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >order
  while read -r path; do
    strip --strip-debug -o "first/modules/$(basename "$path")" "$path"
    basename "$path" >>first/modules/order
  done <order
  (cd first && find . | cpio -o -H newc --quiet | zstd -q -3) >first.img
  rm -rf first kernel
}

[[ $(uname -m) == x86_64 ]] || skip "this is $(uname -m), not x86_64"
for program in qemu-system-x86_64 busybox cpio zstd xz modprobe depmod strip apt-get dpkg rdma flock; do
  command -v "$program" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || skip "there is no $program"
done
PATH=$PATH:/usr/sbin:/sbin
package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
[[ -n $package ]] || skip "apt knows no linux-image-amd64"

name=$(cat "$here/prepare.sh" "$here/guest-init" <(echo "$package") | sha256sum | head -c 16)
mkdir -p "$1"
cd "$1"
exec 9>lock
flock 9
if [[ ! -e $name/ready ]]; then
  rm -rf "${name:?}"
  mkdir "$name"
  cd "$name"
  fetch_kernel
  make_first_file_system
  touch ready
  cd ..
fi
echo "$PWD/$name"
