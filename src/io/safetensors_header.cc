#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "io/quote.h"
#include "io/safetensors_json.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

std::string range_text(const TensorInfo& t) { return str_cat("[", t.begin, ", ", t.end, "]"); }

// The JSON text, after the checks that need only the length field and the raw bytes.
std::string_view header_text(std::span<const std::byte> file, const std::string& source) {
  if (file.size() < kLengthBytes) {
    throw IoError(str_cat(source, ": ", file.size(),
                          " bytes are too short for a safetensors file, ",
                          "which starts with the 8-byte length of its header"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  const std::uint64_t available = file.size() - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    throw IoError(str_cat(source, ": header length ", length, " is over the limit of ",
                          kMaxHeaderBytes, " bytes: not a safetensors file?"));
  }
  if (length > available) {
    throw IoError(str_cat(source, ": header length ", length,
                          " is past the end of the file, which ", "has ", available,
                          " bytes after the length field: truncated?"));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{') {
    throw IoError(str_cat(source, ": the header starts with ", quote(text, 16),
                          ", expected '{', the start of a JSON object"));
  }
  // The JSON lexer takes a NUL for the end of its input and would ignore what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw IoError(str_cat(source, ": the header has a NUL byte at byte ", nul,
                          ", expected JSON text padded with spaces"));
  }
  return text;
}

// Into the order in which check_coverage needs to look at neighbours only.
void sort_by_offset(std::vector<TensorInfo>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
}

std::vector<std::size_t> index_by_name(const std::vector<TensorInfo>& tensors,
                                       const std::string& source) {
  std::vector<std::size_t> index(tensors.size());
  std::iota(index.begin(), index.end(), std::size_t{0});
  std::sort(index.begin(), index.end(),
            [&tensors](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  const auto twice = std::adjacent_find(
      index.begin(), index.end(),
      [&tensors](std::size_t a, std::size_t b) { return tensors[a].name == tensors[b].name; });
  if (twice != index.end()) {
    throw IoError(str_cat(source, ": tensor ", quote(tensors[*twice].name), " occurs twice"));
  }
  return index;
}

// Checks one tensor's offsets against its shape and the data, and sets its strides.
void check_tensor(TensorInfo* t, std::uint64_t data_bytes, const std::string& source) {
  const auto fail = [&](const std::string& problem) {
    throw IoError(str_cat(source, ", tensor ", quote(t->name), ": ", problem));
  };
  if (const std::string problem = shape_problem(t->shape, t->dtype); !problem.empty()) {
    fail(problem);
  }
  if (t->begin > t->end) fail(str_cat("data_offsets ", range_text(*t), " begin past their end"));
  if (t->end > data_bytes) {
    fail(str_cat("data_offsets ", range_text(*t), " are outside the file, which has ", data_bytes,
                 " bytes of data: truncated?"));
  }
  const std::uint64_t expected = tensor_bytes(t->shape, t->dtype);
  if (t->end - t->begin != expected) {
    fail(str_cat("data_offsets ", range_text(*t), " hold ", t->end - t->begin, " bytes, but dtype ",
                 dtype_name(t->dtype), " with shape ", shape_text(t->shape), " takes ", expected));
  }
  t->strides = row_major_strides(t->shape);
}

// The format demands that every byte of the data belongs to exactly one tensor.
void check_coverage(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes,
                    const std::string& source) {
  const auto fail = [&](const TensorInfo& t, const std::string& problem) {
    throw IoError(str_cat(source, ", tensor ", quote(t.name), ": data_offsets ", range_text(t), " ",
                          problem));
  };
  std::uint64_t position = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& t : tensors) {
    if (t.begin < position) {
      fail(t, str_cat("overlap tensor ", quote(previous->name), " at ", range_text(*previous)));
    }
    if (t.begin > position) {
      fail(t, str_cat("leave ", t.begin - position, " bytes without a tensor ",
                      previous ? "after tensor " + quote(previous->name) : "at the data's start"));
    }
    position = t.end;
    previous = &t;
  }
  if (position != data_bytes) {
    throw IoError(str_cat(source, ": the tensors cover ", position, " bytes of data, but the file ",
                          "has ", data_bytes, ": ", data_bytes - position, " trailing bytes"));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source) {
  const std::string_view text = header_text(file, source);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  SafetensorsHeader header = parse_safetensors_json(text, source);
  sort_by_offset(&header.tensors);
  header.by_name = index_by_name(header.tensors, source);
  for (TensorInfo& t : header.tensors) check_tensor(&t, data.size(), source);
  check_coverage(header.tensors, data.size(), source);
  for (TensorInfo& t : header.tensors) t.data = data.data() + t.begin;
  return header;
}

std::string shape_problem(std::span<const std::int64_t> shape, Dtype dtype) {
  if (shape.size() > kMaxRank) {
    return str_cat("shape has ", shape.size(), " extents, at most ", kMaxRank, " are allowed");
  }
  std::int64_t room =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(dtype_size(dtype));
  for (const std::int64_t extent : shape) {
    if (extent < 0) return str_cat("shape ", shape_text(shape), " has a negative extent");
    room /= std::max<std::int64_t>(extent, 1);
    if (room == 0) {
      return str_cat("shape ", shape_text(shape), " with dtype ", dtype_name(dtype),
                     " is too large: its bytes do not fit 63 bits");
    }
  }
  return "";
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = count;
    count *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::uint64_t tensor_bytes(std::span<const std::int64_t> shape, Dtype dtype) {
  std::uint64_t bytes = dtype_size(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace mpfa::internal
