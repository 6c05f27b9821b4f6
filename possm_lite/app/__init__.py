"""The commands of possm-lite, from their options to what they print and write."""
