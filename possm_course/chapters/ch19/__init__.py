"""What chapter 19 shows: choices among eight targets, and a writer whose letters are spelled by CTC."""
