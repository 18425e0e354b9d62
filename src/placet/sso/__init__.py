"""Single sign-on: identity providers that speak OpenID Connect."""
