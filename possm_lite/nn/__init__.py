"""The textbook parts: attention, positions, recurrence; torch only, no knowledge of spikes."""
