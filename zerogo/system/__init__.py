"""What the package needs of the machine: devices, processes, files, signals, logs."""
