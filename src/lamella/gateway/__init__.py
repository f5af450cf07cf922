"""The gateway: other clients' requests, forwarded as they were written, recorded, and explained."""
