#include "sim/cudart/symbol_copy.h"

#include "sim/cudart/api.h"
#include "sim/cudart/stream.h"
#include "sim/cudart/variable.h"

namespace mpfa::sim::cudart {
namespace {

std::byte* part_of(const void* shadow, size_t bytes, size_t offset) {
  const Symbol symbol = find_variable(shadow);
  require(offset <= symbol.bytes && bytes <= symbol.bytes - offset, cudaErrorInvalidValue, bytes,
          " bytes from offset ", offset, " leave the variable, which has ", symbol.bytes);
  return reinterpret_cast<std::byte*>(symbol.address + offset);
}

}  // namespace

Copy copy_to_symbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                    cudaMemcpyKind kind) {
  require(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
              kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection, "kind = ", static_cast<int>(kind),
          ": must be to the device");
  return copy_1d(part_of(symbol, bytes, offset), src, bytes, kind);
}

Copy copy_from_symbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                      cudaMemcpyKind kind) {
  require(kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
              kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection, "kind = ", static_cast<int>(kind),
          ": must be from the device");
  return copy_1d(dst, part_of(symbol, bytes, offset), bytes, kind);
}

extern "C" {

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return api_call("cudaMemcpyToSymbol", [&] {
    issue_checked(nullptr, copy_to_symbol(symbol, src, bytes, offset, kind));
  });
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return api_call("cudaMemcpyFromSymbol", [&] {
    issue_checked(nullptr, copy_from_symbol(dst, symbol, bytes, offset, kind));
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return api_call("cudaMemcpyToSymbolAsync",
                  [&] { issue_checked(stream, copy_to_symbol(symbol, src, bytes, offset, kind)); });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return api_call("cudaMemcpyFromSymbolAsync", [&] {
    issue_checked(stream, copy_from_symbol(dst, symbol, bytes, offset, kind));
  });
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return api_call("cudaGetSymbolAddress", [&] {
    require_pointer(address, "devPtr");
    *address = reinterpret_cast<void*>(find_variable(symbol).address);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return api_call("cudaGetSymbolSize", [&] {
    require_pointer(bytes, "size");
    *bytes = find_variable(symbol).bytes;
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
