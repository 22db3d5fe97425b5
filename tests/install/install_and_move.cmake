# SPDX-License-Identifier: Apache-2.0
# Installs BUILD into STAGE and moves that to PREFIX: nothing that is installed may remember where it was.
file(REMOVE_RECURSE ${STAGE} ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${STAGE} RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "cmake --install failed: ${result}")
endif()
file(RENAME ${STAGE} ${PREFIX})
