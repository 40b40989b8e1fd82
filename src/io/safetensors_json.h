#pragma once

#include <string>
#include <string_view>

#include "io/safetensors_header.h"

namespace mpfa::internal {

// Reads the header's JSON into tensors (name, dtype, shape, begin, end; in the text's order) and
// metadata. Checks everything that the text alone decides: UTF-8, syntax, keys that occur twice in
// an entry or in the metadata, missing and unknown keys, types and dtype names. Whether offsets and
// shapes fit each other and the file is left to parse_safetensors. Throws IoError starting with
// `source`. `text` must start with '{' and have no NUL.
SafetensorsHeader parse_safetensors_json(std::string_view text, const std::string& source);

}  // namespace mpfa::internal
