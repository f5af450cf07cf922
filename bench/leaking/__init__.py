"""What leaves a server that keeps documents with restricted access, whatever its second model says of them."""
