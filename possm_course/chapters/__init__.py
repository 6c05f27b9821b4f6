"""What the chapters show, a folder for each: models that only it teaches, toy tasks, drawings."""
