"""What `doors.py` is made of: a paced upstream, bare relays to compare with, and clients of each door."""
