// The folder and file helpers of all tests, under the names that the tests of tools/ use.
#pragma once

#include "support/temp_folder.h"

namespace mpfa::tools {

using testing::read_file;
using testing::TempFolder;
using testing::write_file;

}  // namespace mpfa::tools
