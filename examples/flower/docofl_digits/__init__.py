"""Handwritten digits with Flower, FedAvg and DoCoFL."""
