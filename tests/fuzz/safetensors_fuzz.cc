// libFuzzer target: any bytes are either a valid file, every tensor of which can be read, or an
// IoError. Anything else (another exception, a crash, a sanitizer's finding) is a bug.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "io/safetensors.h"
#include "mpfa/check.h"

namespace {

using mpfa::internal::SafetensorsReader;
using mpfa::internal::TensorInfo;

void require(bool condition) {
  if (!condition) std::abort();
}

// The first and the last byte, in the file and through the view; in between lies nothing new.
unsigned touch(const SafetensorsReader& reader, const TensorInfo& tensor) {
  require(reader.find(tensor.name) == &tensor);
  const DLTensor view = reader.view(tensor.name);
  require(view.ndim == static_cast<std::int32_t>(tensor.shape.size()));
  if (tensor.begin == tensor.end) {
    require(view.data == nullptr);
    return 0;
  }
  const std::uint64_t last = tensor.end - tensor.begin - 1;
  const auto* in_file = reinterpret_cast<const unsigned char*>(tensor.data);
  const auto* in_view = static_cast<const unsigned char*>(view.data);
  const std::size_t alignment = mpfa::internal::dtype_size(tensor.dtype);
  require(reinterpret_cast<std::uintptr_t>(in_view) % alignment == 0);
  require(in_file[0] == in_view[0] && in_file[last] == in_view[last]);
  return in_view[0] + in_view[last];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const SafetensorsReader reader =
        SafetensorsReader::from_bytes(std::as_bytes(std::span<const std::uint8_t>(data, size)));
    volatile unsigned sum = 0;  // keeps the reads
    for (const TensorInfo& tensor : reader.tensors()) sum = sum + touch(reader, tensor);
  } catch (const mpfa::IoError&) {
  }
  return 0;
}
