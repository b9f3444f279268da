"""Queries about this machine that every judge needs; an import before the fork caches the answers."""

from agent import config
from agent.build import nvcc
from agent.gpu_build import gpu
from agent.harness.backends import gpu_lock, load_inline_build

gpu.present()
gpu_lock.listed()
nvcc.find()
load_inline_build.nvcc_version(config.child_environment())
