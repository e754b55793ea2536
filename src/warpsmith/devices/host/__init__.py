"""The CPU as a device: generated CUDA sources compiled by a C++17 compiler against `cuda_on_host.h`."""
