"""What computes for long, a script for each, with the results that it wrote beside it; chapters draw them."""
