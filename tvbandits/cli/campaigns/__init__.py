"""The campaign commands of the command line."""
