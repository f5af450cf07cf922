"""Pages of the web: which may be opened, how they are fetched, and the tool that reads them."""
