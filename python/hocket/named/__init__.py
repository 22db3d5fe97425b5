# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Collectives whose calls are matched by name, as Horovod does: ranks may make them in different orders, small ones are
fused, and what does not fit together is an error on every rank. Knows no framework; hocket.torch is its first face."""
