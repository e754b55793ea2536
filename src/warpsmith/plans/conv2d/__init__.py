"""Training steps of conv2d layers. Other packages import only the module `training`."""
