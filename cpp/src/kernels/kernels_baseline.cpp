#define DOCOFL_ISA baseline
#include "kernels/kernels.inl"
