#include "common/progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "common/terminal.h"

namespace mpfa::tools {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kSilence{1000};
constexpr milliseconds kPeriod{200};

}  // namespace

Progress::Progress(std::string label, int64_t total) : label_(std::move(label)), total_(total) {
  if (is_terminal(stderr)) thread_ = std::thread([this] { tick(); });
}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
  if (shown_ > 0) show("");
}

void Progress::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
}

void Progress::set_label(std::string label) {
  const std::lock_guard lock(mutex_);
  label_ = std::move(label);
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  milliseconds wait = kSilence;
  while (!stop_changed_.wait_for(lock, wait, [this] { return stop_; })) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    show(line(elapsed.count()));
    wait = kPeriod;
  }
}

std::string Progress::line(double seconds) const {
  if (total_ <= 0) return fmt::format("{}  {:.0f} s", label_, seconds);
  return fmt::format("{}  {}/{}  {:.0f} s", label_, done_, total_, seconds);
}

// Spaces wipe what a longer line left; every terminal understands them.
void Progress::show(const std::string& line) {
  const auto width = static_cast<size_t>(terminal_width(stderr)) - 1;
  std::string text = line.substr(0, width);
  const size_t length = text.size();
  if (length < shown_) text.append(shown_ - length, ' ');
  std::fputs(fmt::format("\r{}{}", text, length == 0 ? "\r" : "").c_str(), stderr);
  std::fflush(stderr);
  shown_ = length;
}

}  // namespace mpfa::tools
