"""The experiments of the paper, made with piwo's public names."""
