"""Methods of other authors, to compare with: each as its paper has it, held against a restatement."""
