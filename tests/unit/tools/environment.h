// A variable of the environment, set for as long as this object lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace mpfa::tools {

// Sets it for this program and those it starts; null unsets it. Puts back what was there.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str()); old != nullptr) old_ = old;
    set(value);
  }
  ScopedEnvironment(std::string name, const std::string& value)
      : ScopedEnvironment(std::move(name), value.c_str()) {}
  ~ScopedEnvironment() { set(old_ ? old_->c_str() : nullptr); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      ::setenv(name_.c_str(), value, 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> old_;
};

}  // namespace mpfa::tools
