"""Other packages, as they are published, on the problems and with the noise of a comparison."""
