"""Holdfast under agent frameworks: a module for each, imported by nothing but the code that uses that framework."""
