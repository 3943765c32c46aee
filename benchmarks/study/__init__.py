"""The paper's tables in our setting: each run is one JSON file, tables and plots are made of these.

plan.py says which runs there are, runner.py makes them, report.py writes docs/results.md.

    python -m benchmarks.study plan                 # what will run, in order, and how long it takes
    python -m benchmarks.study run --data DATA --glove GLOVE --out DIR [--only table1]
    python -m benchmarks.study report DIR           # DIR/runs/*.json -> docs/results.md and plots
"""
