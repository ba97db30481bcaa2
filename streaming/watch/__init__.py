"""A running query is watched: its signs of life are collected, and shown as metrics, health and states."""
