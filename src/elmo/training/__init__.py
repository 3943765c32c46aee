"""What every training run needs: budget, checkpoints, metrics, optimizers, processes."""
