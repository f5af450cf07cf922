"""What `replicas.py` is made of: replicas on real servers behind a real balancer, clients that go on, and laws."""
