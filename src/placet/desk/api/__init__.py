"""The API for programs, `/v1`: a table of operations, from which both the routes and their description are made."""
