"""The exercises of the chapters, a module for each: right answers, cases that tell them, known mistakes."""
