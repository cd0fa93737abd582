"""One module per API.

A handler gets a request, its context and the components that it needs, and returns a response.
"""
