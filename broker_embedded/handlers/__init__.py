"""One module per API: a request, its context and the components that it needs in, a response out."""
