"""What chapter 19 shows: choices among eight targets, and a writer that is read with CTC."""
