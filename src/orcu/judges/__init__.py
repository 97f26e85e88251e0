"""Grades that language models hand out: read, calibrated to people, and used where people would be asked."""
