// A line on the terminal for work that takes longer than a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace mpfa::tools {

// Shows "label  done/total  12 s" on standard error from the first second on, until finish() or the
// end of its life. Does nothing where standard error is not a terminal. A thread of its own keeps
// the line alive while the work sits in one long call.
class Progress {
 public:
  // total = 0: the number of steps is not known.
  explicit Progress(std::string label, int64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Another step is done.
  void step();
  void set_label(std::string label);
  // Wipes the line for good; call it before printing anything else.
  void finish();

 private:
  void tick();
  std::string line(double seconds) const;
  void show(const std::string& line);

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  size_t shown_ = 0;  // columns on the screen
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mpfa::tools
