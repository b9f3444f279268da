"""Where candidates are built and run: the emulator, a GPU, and the folder and process of each."""
