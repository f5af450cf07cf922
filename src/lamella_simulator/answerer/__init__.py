"""The offline answerer: quotes the documents of a request, says plainly what it is, and invents nothing."""
