"""The study: the paper's tables with our model and data. Each run is one JSON file.

plan.py lists the runs, runner.py runs them, report.py writes docs/results.md from their files.

    python -m benchmarks.study data --data DATA     # is it the data of the published study?
    python -m benchmarks.study plan                 # what will run, in order, and how long it takes
    python -m benchmarks.study run --data DATA --glove GLOVE --out DIR [--only table1]
    python -m benchmarks.study report DIR           # DIR/runs/*.json -> docs/results.md and plots
"""
