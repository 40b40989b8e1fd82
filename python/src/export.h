// How a function of this folder becomes one of the TVM-FFI module.
#pragma once

#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <new>
#include <utility>

#include "mpfa/check.h"

namespace mpfa::python {

// Errors of the library under the names of the Python exceptions that they become.
template <auto Function>
struct Translated;

template <typename Result, typename... Args, Result (*Function)(Args...)>
struct Translated<Function> {
  static Result call(Args... args) {
    try {
      return Function(std::move(args)...);
    } catch (const InvalidArgument& error) {
      throw tvm::ffi::Error("ValueError", error.what(), "");
    } catch (const IoError& error) {
      throw tvm::ffi::Error("OSError", error.what(), "");
    } catch (const Error& error) {
      throw tvm::ffi::Error("RuntimeError", error.what(), "");
    } catch (const std::bad_alloc&) {
      throw tvm::ffi::Error("MemoryError", "not enough memory on the host", "");
    }
  }
};

}  // namespace mpfa::python

// Exports mpfa::python::NAME as NAME.
#define MPFA_PYTHON_EXPORT(NAME) \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(NAME, mpfa::python::Translated<&mpfa::python::NAME>::call)
