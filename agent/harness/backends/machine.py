"""Queries about this machine's GPU and compilers, cached by an import before judges are forked."""

from agent import config
from agent.build import nvcc
from agent.gpu_build import gpu
from agent.harness.backends import gpu_lock, load_inline_build

gpu.present()
gpu_lock.listed()
nvcc.find()
load_inline_build.nvcc_version(config.child_environment())
