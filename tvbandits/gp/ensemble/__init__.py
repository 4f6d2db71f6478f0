"""An ensemble of space-time models, weighted by how well they predict."""
