"""The neural network: character CNN, LSTM layers, biLM, scalar mix, softmax."""
