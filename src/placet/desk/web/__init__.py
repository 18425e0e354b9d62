"""What the desk's pages and its API stand on: who asks, what is refused, how errors look, live news. No routes.

The seams, for authors of a page or a route:

- `web_of(request)` (context.py) is everything that a request may need: `.desk`, `.accounts`, `.settings`, `.feed`,
  `.meter`, `.clock`.
- `actor_of(request)` is who asks (`.name`, `.role`, `.may("admin")`, `.may_decide(agent, tool)`, `.csrf`); it raises
  Problem 401 when the user is not known, which a browser sees as a redirect to `/login?next=…`.
  `actor_or_none(request)` does not. `require(request, "admin")` is the actor with at least that role, or Problem 403.
- Every unsafe request of a cookie's owner is checked before any route sees it (guards.py): its `Origin` must be ours,
  and it carries `actor.csrf` in the header `X-CSRF-Token` or in the form field `csrf_token`. Forms are
  `application/x-www-form-urlencoded`; `csrf_of(request)` is what to put into them, also on pages for people who are not
  logged in (there the check is of `Origin` alone).
- `decide(web, actor, request_id, decision)` (deciding.py) is the one way to decide: it checks who may, and
  records who did.
  `why_not_decide` says in words why a user may not.
- `log_in`, `log_out`, `accept_invitation` (sessions.py) set and remove the cookie on a response.
- Errors are `Problem`s (problems.py): raise one, or any PlacetError. A client that prefers HTML gets the page that
  `create_app(error_page=…)` makes of it, all others get `application/problem+json`.
- Pages are `placet.desk.pages.routes.page_routes() -> list[BaseRoute]`; `create_app` puts them behind the API.
"""
