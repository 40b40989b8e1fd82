#include "io/safetensors_json.h"

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kEntryKeys = {"dtype", "shape", "data_offsets"};
enum EntryKey : std::size_t { kDtypeKey, kShapeKey, kOffsetsKey };

// Where in the header the parser stands: which container's elements come next.
enum class Place { kOutside, kRoot, kEntry, kShape, kOffsets, kMetadata };

// Receives the JSON text piece by piece. A document tree would hide keys that occur twice and cost
// many times the text's memory; here the first piece out of place throws, however deep its nesting.
class HeaderHandler {
 public:
  explicit HeaderHandler(const std::string& source) : source_(source) {}

  SafetensorsHeader take() { return std::move(header_); }

  // The interface that nlohmann::json::sax_parse calls. Returning false would end the parse without
  // a reason, so these always return true or throw.
  bool null() { return reject("null"); }
  bool boolean(bool value) { return reject(value ? "true" : "false"); }
  bool number_integer(Json::number_integer_t value) {  // called for numbers with a minus sign only
    return reject("the number " + (value == 0 ? "-0" : std::to_string(value)));
  }
  bool number_float(Json::number_float_t, const std::string& text) {
    return reject("the number " + quote(text));
  }
  bool binary(Json::binary_t&) { return reject("binary data"); }
  bool number_unsigned(Json::number_unsigned_t value);
  bool string(std::string& value);
  bool start_object(std::size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& token, const Json::exception& error);

 private:
  [[noreturn]] bool reject(const std::string& found) const;
  [[noreturn]] void fail(const std::string& problem) const;
  std::string subject() const;
  std::string_view expected() const;
  void start_entry_key(const std::string& name);
  void finish_entry();

  const std::string& source_;
  SafetensorsHeader header_;
  Place place_ = Place::kOutside;
  bool in_metadata_ = false;    // the root's current key is __metadata__
  bool seen_metadata_ = false;  // ... or was
  std::string metadata_key_;
  TensorInfo tensor_;  // the entry being read
  std::array<bool, kEntryKeys.size()> seen_ = {};
  EntryKey entry_key_ = kDtypeKey;
  std::size_t num_offsets_ = 0;
};

bool HeaderHandler::number_unsigned(Json::number_unsigned_t value) {
  if (place_ == Place::kShape) {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      fail(str_cat("extent ", value, " does not fit 63 bits"));
    }
    if (tensor_.shape.size() == kMaxRank) {
      fail(str_cat("more than ", kMaxRank, " extents, the most that are allowed"));
    }
    tensor_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  if (place_ == Place::kOffsets && num_offsets_ < 2) {
    (num_offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    return true;
  }
  reject(place_ == Place::kOffsets ? "a third number" : str_cat("the number ", value));
}

bool HeaderHandler::string(std::string& value) {
  if (place_ == Place::kMetadata) {
    header_.metadata.emplace(std::move(metadata_key_), std::move(value));
    return true;
  }
  if (place_ != Place::kEntry || entry_key_ != kDtypeKey) reject("the string " + quote(value));
  const std::optional<Dtype> dtype = dtype_from_name(value);
  if (!dtype) fail(quote(value) + " is not supported, expected one of " + dtype_names());
  tensor_.dtype = *dtype;
  return true;
}

bool HeaderHandler::start_object(std::size_t) {
  if (place_ == Place::kOutside) {
    place_ = Place::kRoot;
  } else if (place_ == Place::kRoot) {
    place_ = in_metadata_ ? Place::kMetadata : Place::kEntry;
  } else {
    reject("an object");
  }
  return true;
}

bool HeaderHandler::key(std::string& name) {
  if (place_ == Place::kMetadata) {
    metadata_key_ = std::move(name);
    if (header_.metadata.contains(metadata_key_)) fail("the key occurs twice");
  } else if (place_ == Place::kEntry) {
    start_entry_key(name);
  } else {
    in_metadata_ = name == kMetadataKey;
    if (in_metadata_ && std::exchange(seen_metadata_, true)) fail("the key occurs twice");
    tensor_ = {};
    tensor_.name = std::move(name);
    seen_ = {};
    num_offsets_ = 0;
  }
  return true;
}

void HeaderHandler::start_entry_key(const std::string& name) {
  for (std::size_t i = 0; i < kEntryKeys.size(); ++i) {
    if (name != kEntryKeys[i]) continue;
    entry_key_ = static_cast<EntryKey>(i);
    if (std::exchange(seen_[i], true)) fail("the key occurs twice");
    return;
  }
  place_ = Place::kRoot;  // the tensor itself is the subject of the message
  fail("unknown key " + quote(name) + ", expected dtype, shape and data_offsets only");
}

bool HeaderHandler::end_object() {
  if (place_ == Place::kEntry) finish_entry();
  place_ = place_ == Place::kRoot ? Place::kOutside : Place::kRoot;
  return true;
}

void HeaderHandler::finish_entry() {
  for (std::size_t i = 0; i < kEntryKeys.size(); ++i) {
    if (seen_[i]) continue;
    entry_key_ = static_cast<EntryKey>(i);
    fail("the key is missing");
  }
  header_.tensors.push_back(std::move(tensor_));
}

bool HeaderHandler::start_array(std::size_t) {
  if (place_ != Place::kEntry || entry_key_ == kDtypeKey) reject("an array");
  place_ = entry_key_ == kShapeKey ? Place::kShape : Place::kOffsets;
  return true;
}

bool HeaderHandler::end_array() {
  if (place_ == Place::kOffsets && num_offsets_ != 2) {
    reject(str_cat("an array of ", num_offsets_));
  }
  place_ = Place::kEntry;
  return true;
}

bool HeaderHandler::parse_error(std::size_t position, const std::string& token,
                                const Json::exception& error) {
  // The library's message ends in the whole token, raw and up to the header's size; of it we keep
  // the reason, and show the token's end in a safe form.
  std::string_view reason = error.what();
  reason = reason.substr(0, reason.find("; last read: "));
  if (const std::size_t start = reason.find(": "); start != std::string_view::npos) {
    reason.remove_prefix(start + 2);
  }
  if (error.id == 406) reason = "number out of range";  // this one quotes the token in its middle
  constexpr std::size_t kShown = 32;
  std::string_view shown = token;
  if (shown.size() > kShown) shown.remove_prefix(shown.size() - kShown);
  throw IoError(str_cat(source_, ": the header is not valid JSON at byte ", position, ", near ",
                        quote(shown), ": ", reason));
}

bool HeaderHandler::reject(const std::string& found) const {
  fail(str_cat("found ", found, ", expected ", expected()));
}

void HeaderHandler::fail(const std::string& problem) const {
  throw IoError(str_cat(source_, ", ", subject(), ": ", problem));
}

// What the message is about, from the outside in.
std::string HeaderHandler::subject() const {
  if (place_ == Place::kOutside) return "header";
  if (place_ == Place::kMetadata) {
    return str_cat(kMetadataKey, ", key ", quote(metadata_key_));
  }
  if (in_metadata_) return std::string(kMetadataKey);
  const std::string tensor = "tensor " + quote(tensor_.name);
  return place_ == Place::kRoot ? tensor : str_cat(tensor, ", ", kEntryKeys[entry_key_]);
}

std::string_view HeaderHandler::expected() const {
  if (place_ == Place::kOutside) return "an object";
  if (place_ == Place::kMetadata) return "a string";
  if (in_metadata_) return "an object that maps strings to strings";
  if (place_ == Place::kRoot) return "an object with dtype, shape and data_offsets";
  if (entry_key_ == kDtypeKey) return "a string";
  return entry_key_ == kShapeKey ? "an array of non-negative integers"
                                 : "an array of two non-negative integers";
}

}  // namespace

SafetensorsHeader parse_safetensors_json(std::string_view text, const std::string& source) {
  HeaderHandler handler(source);
  Json::sax_parse(text.begin(), text.end(), &handler);
  return handler.take();
}

}  // namespace mpfa::internal
