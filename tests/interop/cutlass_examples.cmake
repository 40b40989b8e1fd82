# The examples of CUTLASS (README.md says what each uses). They and the headers come with the
# nvidia-cutlass wheel, which scripts/setup.sh installs where nvcc is found; like DLPack, it goes
# when .venv is made anew.
if(MPFA_CUTLASS_DIR AND NOT EXISTS ${MPFA_CUTLASS_DIR}/include/cutlass/cutlass.h)
  unset(MPFA_CUTLASS_DIR CACHE)
endif()
file(GLOB cutlass_hints ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/cutlass_library/source)
find_path(MPFA_CUTLASS_DIR include/cutlass/cutlass.h HINTS ${cutlass_hints} NO_DEFAULT_PATH
  DOC "CUTLASS's folder, which holds include/ and examples/")
if(NOT MPFA_CUTLASS_DIR)
  message(STATUS "CUTLASS's examples in the simulator: left out (the wheel of "
    "scripts/requirements/cutlass.txt is not installed: run scripts/setup.sh test)")
  return()
endif()

# cutlass_example(NAME ARCH FILE [SHRINK from to ...] ...): the rest as for mpfa_interop_program.
# SHRINK replaces text of the source, in a copy: sizes that the example fixes and that are made for a
# GPU.
function(cutlass_example name arch file)
  cmake_parse_arguments(ARG "" "" "SHRINK" ${ARGN})
  set(source ${MPFA_CUTLASS_DIR}/examples/${file})
  get_filename_component(folder ${source} DIRECTORY)
  if(ARG_SHRINK)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    while(ARG_SHRINK)
      list(POP_FRONT ARG_SHRINK from to)
      string(FIND "${text}" "${from}" found)
      if(found EQUAL -1)
        message(FATAL_ERROR "cutlass_example(${name}): SHRINK: no \"${from}\" in ${source}")
      endif()
      string(REPLACE "${from}" "${to}" text "${text}")
    endwhile()
    get_filename_component(source ${source} NAME)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/shrunk/${source})
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  endif()
  mpfa_interop_program(NAME cutlass_${name} ARCH ${arch} SOURCE ${source} ${ARG_UNPARSED_ARGUMENTS}
    FLAGS --expt-relaxed-constexpr --extended-lambda -DCUTLASS_ENABLE_TENSOR_CORE_MMA=1
      -I${MPFA_CUTLASS_DIR}/include -I${MPFA_CUTLASS_DIR}/tools/util/include
      -I${MPFA_CUTLASS_DIR}/examples/common -I${folder})
endfunction()

cutlass_example(14_tf32_gemm 80
  14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu QUICK
  ARGS --m=256 --n=128 --k=64)

# Sizes are as small as the examples take them, so that each runs in seconds.
cutlass_example(00_basic_gemm 80 00_basic_gemm/basic_gemm.cu ARGS 128 128 128)
cutlass_example(01_utilities 80 01_cutlass_utilities/cutlass_utilities.cu)
cutlass_example(02_dump_reg_shmem 80 02_dump_reg_shmem/dump_reg_shmem.cu
  EXPECT "TB0 W0 T4: 32 33 34 35 36 37 38 39 288 289 ")
cutlass_example(04_tile_iterator 80 04_tile_iterator/tile_iterator.cu)
cutlass_example(05_batched_gemm 80 05_batched_gemm/batched_gemm.cu)
cutlass_example(09_conv2d_fprop 80 09_turing_tensorop_conv2dfprop/turing_tensorop_conv2dfprop.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(12_gemm_bias_relu 80 12_gemm_bias_relu/gemm_bias_relu.cu
  SHRINK "length_m = 5120" "length_m = 256" "length_n = 4096" "length_n = 128"
    "length_k = 4096" "length_k = 64")
foreach(residency rf shmem)
  cutlass_example(13_two_gemms_f16_${residency} 80
    13_two_tensor_op_fusion/fused_two_gemms_f16_sm80_${residency}.cu
    GPU sm_80 EXPECT "Pass" SHRINK "128*640" "128")
  foreach(element f16 s8)
    cutlass_example(13_two_convs_${element}_${residency} 80
      13_two_tensor_op_fusion/fused_two_convs_${element}_sm80_${residency}.cu
      GPU sm_80 EXPECT "Pass" SHRINK "{32, 56, 56," "{1, 8, 8,")
  endforeach()
endforeach()
cutlass_example(13_two_gemms_grouped 80
  13_two_tensor_op_fusion/fused_two_gemms_grouped_f16_sm80_rf.cu
  GPU sm_80 EXPECT "Pass" ARGS --problems=3 --m=64 --k=64)
cutlass_example(15_sparse_gemm 80 15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm.cu)
cutlass_example(15_sparse_gemm_universal 80
  15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm_universal.cu)
cutlass_example(15_sparse_gemm_visitor 80
  15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm_with_visitor.cu)
cutlass_example(16_conv2d_fprop 80 16_ampere_tensorop_conv2dfprop/ampere_tensorop_conv2dfprop.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(17_fprop_bias 80 17_fprop_per_channel_bias/fprop_per_channel_bias.cu)
cutlass_example(18_fp64_affine2_gemm 80
  18_ampere_fp64_tensorop_affine2_gemm/ampere_fp64_tensorop_affine2_gemm.cu)
cutlass_example(19_tensorop_canonical 80 19_tensorop_canonical/tensorop_canonical.cu)
cutlass_example(20_simt_canonical 80 20_simt_canonical/simt_canonical.cu)
cutlass_example(21_quaternion_gemm 80 21_quaternion_gemm/quaternion_gemm.cu
  ARGS --m=64 --n=64 --k=32 --iterations=1)
cutlass_example(22_quaternion_conv 80 22_quaternion_conv/quaternion_conv.cu
  ARGS --n=1 --h=8 --w=8 --c=16 --k=16 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(23_operand_reduction 80
  23_ampere_gemm_operand_reduction_fusion/ampere_gemm_operand_reduction_fusion.cu
  ARGS --m=256 --n=128 --k=128 --ref-check --iterations=1)
cutlass_example(24_grouped_gemm 80 24_gemm_grouped/gemm_grouped.cu
  ARGS --groups=3 --m=64 --n=64 --k=64 --iterations=1)
cutlass_example(25_fprop_mainloop_fusion 80
  25_ampere_fprop_mainloop_fusion/ampere_fprop_mainloop_fusion.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(25_3d_fprop_mainloop_fusion 80
  25_ampere_fprop_mainloop_fusion/ampere_3d_fprop_mainloop_fusion.cu
  ARGS --n=1 --d=4 --h=6 --w=6 --c=32 --k=32 --t=3 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(26_wgrad_mainloop_fusion 80
  26_ampere_wgrad_mainloop_fusion/ampere_wgrad_mainloop_fusion.cu GPU sm_80
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --ref-check --iterations=1)
# These print errors against a product in FP64, without a verdict.
cutlass_example(27_3xtf32_gemm 80
  27_ampere_3xtf32_fast_accurate_tensorop_gemm/27_ampere_3xtf32_fast_accurate_tensorop_gemm.cu
  EXPECT "3xTF32 error with FP64 reference : [0-9.]+e-07"
  ARGS --m=128 --n=128 --k=128 --iterations=1)
cutlass_example(28_3xtf32_fprop 80
  28_ampere_3xtf32_fast_accurate_tensorop_fprop/ampere_3xtf32_fast_accurate_tensorop_fprop.cu
  EXPECT "conv_1,.*,[0-9.]+e-07,[0-9.]+,[0-9.]+e-07"
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --iterations=1)
cutlass_example(29_3xtf32_complex_gemm 80
  29_ampere_3xtf32_fast_accurate_tensorop_complex_gemm/29_3xtf32_complex_gemm.cu
  EXPECT "3xTF32 error with FP64 reference : [0-9.]+e-07"
  ARGS --m=64 --n=64 --k=32 --iterations=1)
cutlass_example(33_3xtf32_symm 80
  33_ampere_3xtf32_tensorop_symm/ampere_3xtf32_tensorop_symm.cu
  EXPECT "3xTF32 error with F64 reference +: [0-9.]+e-07"
  ARGS --m=128 --n=64 --alpha=2 --beta=2)
cutlass_example(30_wgrad_split_k 80 30_wgrad_split_k/30_wgrad_split_k.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --ref-check --iterations=1)
cutlass_example(31_syrk 80 31_basic_syrk/basic_syrk.cu)
cutlass_example(32_trmm 80 32_basic_trmm/basic_trmm.cu)
cutlass_example(34_transposed_conv2d 80 34_transposed_conv2d/34_transposed_conv2d.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --iterations=1)
cutlass_example(35_gemm_softmax 80 35_gemm_softmax/gemm_softmax.cu
  ARGS --m=128 --n=256 --k=64 --batch_count=1 --iterations=1)
cutlass_example(36_gather_scatter 80 36_gather_scatter_fusion/gather_scatter_fusion.cu
  ARGS --m=128 --n=256 --k=64 --index_size=64 --iterations=1)
cutlass_example(38_grouped_syr2k 80 38_syr2k_grouped/syr2k_grouped.cu
  ARGS --groups=2 --n=64 --k=64 --iterations=1)
cutlass_example(41_attention_fixed 80
  41_fused_multi_head_attention/fused_multihead_attention_fixed_seqlen.cu
  ARGS --head_number=2 --batch_size=1 --seq_length=128 --iterations=1)
cutlass_example(41_attention_variable 80
  41_fused_multi_head_attention/fused_multihead_attention_variable_seqlen.cu
  ARGS --head_number=2 --batch_size=2 --seq_length=64 --iterations=1)
cutlass_example(42_group_conv 80 42_ampere_tensorop_group_conv/ampere_tensorop_group_conv.cu
  ARGS --n=1 --h=8 --w=8 --c=128 --k=128 --r=3 --s=3 --g=2 --ref-check --iterations=1)
cutlass_example(43_ell_sparse_gemm 80 43_ell_block_sparse_gemm/ell_block_sparse_gemm.cu
  ARGS --a_rows=128 --n=128 --a_cols=128 --a_ell_num_columns=64 --a_ell_blocksize=16
    --iterations=1)
cutlass_example(45_dual_gemm 80 45_dual_gemm/dual_gemm.cu EXPECT "Pass"
  SHRINK "(4096, 4096, 8192)" "(256, 128, 64)" "(321, 256, 512)" "(129, 128, 64)"
    "kBatchCount = 37" "kBatchCount = 3")
cutlass_example(46_depthwise_conv 80
  46_depthwise_simt_conv2dfprop/depthwise_simt_conv2dfprop.cu
  ARGS --n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --g=32 --ref-check --iterations=1)
cutlass_example(47_streamk 80 47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk.cu
  ARGS --m=256 --n=256 --k=128 --iterations=1)
cutlass_example(48_warp_specialized 90a
  48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu DRIVER
  ARGS --m=256 --n=256 --k=128 --iterations=1)
cutlass_example(49_collective_builder 90a
  49_hopper_gemm_with_collective_builder/49_collective_builder.cu DRIVER
  ARGS --m=128 --n=256 --k=128)
cutlass_example(50_epilogue_swizzle 90a
  50_hopper_gemm_with_epilogue_swizzle/50_hopper_gemm_with_epilogue_swizzle.cu DRIVER
  ARGS --m=128 --n=128 --k=128)
cutlass_example(51_gett 90a 51_hopper_gett/51_hopper_gett.cu DRIVER EXPECT "verification passed"
  ARGS --modeA=m,k,l --modeB=k,n,l --modeC=m,n,l --extents=m:128,n:128,k:64,l:2)
cutlass_example(52_gather_scatter 90a
  52_hopper_gather_scatter_fusion/52_hopper_gather_scatter_fusion.cu DRIVER
  ARGS --m=256 --n=256 --k=128 --batch_size=1 --index_size=128 --mode=n --iterations=1)
cutlass_example(54_fp8 90a
  54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu DRIVER
  ARGS --m=256 --n=256 --k=256 --iterations=1)
cutlass_example(55_mixed 90a 55_hopper_mixed_dtype_gemm/55_hopper_mixed_dtype_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=128 --iterations=1)
cutlass_example(55_int4_bf16 90a 55_hopper_mixed_dtype_gemm/55_hopper_int4_bf16_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=256 --iterations=1)
cutlass_example(55_int4_fp8 90a 55_hopper_mixed_dtype_gemm/55_hopper_int4_fp8_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=256 --iterations=1)
cutlass_example(56_ptr_array 90a
  56_hopper_ptr_array_batched_gemm/56_hopper_ptr_array_batched_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=128 --l=2 --iterations=1)
cutlass_example(57_grouped 90a 57_hopper_grouped_gemm/57_hopper_grouped_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=128 --groups=2 --iterations=1)
cutlass_example(58_ada_fp8 89 58_ada_fp8_gemm/ada_fp8_gemm.cu
  ARGS --m=128 --n=128 --k=128 --reference-check --iterations=1)
cutlass_example(59_gather_scatter_conv 80
  59_ampere_gather_scatter_conv/ampere_gather_scatter_conv.cu 
  EXPECT "Vector relative error: +[0-9.]+e-04" ARGS --n=8 --i=1)
cutlass_example(61_topk_softmax 90a
  61_hopper_gemm_with_topk_and_softmax/61_hopper_gemm_with_topk_and_softmax.cu DRIVER
  ARGS --m=128 --n=8 --k=64 --iterations=1)
cutlass_example(62_sparse 90a 62_hopper_sparse_gemm/62_hopper_sparse_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=128 --iterations=1)
cutlass_example(63_weight_prefetch 90a
  63_hopper_gemm_with_weight_prefetch/63_hopper_gemm_with_weight_prefetch.cu DRIVER
  ARGS --m=128 --n=128 --k=128 --iterations=1)
cutlass_example(64_ada_fp8_grouped 89 64_ada_fp8_gemm_grouped/ada_fp8_gemm_grouped.cu GPU sm_89
  ARGS --groups=3 --m=64 --n=64 --k=64 --iterations=1)
set(folder 67_hopper_fp8_warp_specialized_gemm_with_blockwise_scaling)
foreach(scaling blockwise groupwise)
  cutlass_example(67_fp8_${scaling} 90a
    ${folder}/67_hopper_fp8_warp_specialized_gemm_with_${scaling}_scaling.cu DRIVER
    ARGS --m=128 --n=128 --k=256 --iterations=0)
endforeach()
set(folder 68_hopper_fp8_warp_specialized_grouped_gemm_with_blockwise_scaling)
cutlass_example(68_fp8_grouped_blockwise 90a ${folder}/${folder}.cu DRIVER
  ARGS --m=128 --n=128 --k=256 --groups=2 --iterations=0)
set(folder 69_hopper_mixed_dtype_grouped_gemm)
cutlass_example(69_mixed_grouped 90a ${folder}/${folder}.cu DRIVER
  ARGS --m=128 --n=128 --k=512 --groups=2 --iterations=0)
cutlass_example(69_int4_bf16_grouped 90a ${folder}/69_hopper_int4_bf16_grouped_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=512 --groups=2 --iterations=0)
cutlass_example(69_int4_fp8_grouped 90a ${folder}/69_hopper_int4_fp8_grouped_gemm.cu DRIVER
  ARGS --m=128 --n=128 --k=512 --groups=2 --iterations=0)
cutlass_example(88_fmha 90a 88_hopper_fmha/88_hopper_fmha.cu DRIVER EXPECT "\\[OK\\]"
  ARGS --b=1 --h=1 --q=128 --k=128 --d=64 --verify --iterations=1)
