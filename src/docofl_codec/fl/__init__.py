"""The reference federated-learning loop: data sets, models, training, reports.

Needs the extra ``fl`` (torch, scikit-learn, matplotlib, rich).
"""
