"""The page, its API and its metrics: what `fallow up` shows to a browser and to programs.

settings       where the page listens                  token, sessions  the secret, and who has shown it
access         which requests are let in               caller           who asks, and what they may do
view_models    the text of the page as plain values    page_parts       those values as parts of a page
event_streams  changed parts, sent to watchers         server           uvicorn in our own event loop
plots          what the plots show                     subject_pages    a page for a GPU, job, user
page, api, query                                       app              all of it together

Nothing here decides anything. It reads the board, which the policy loop replaces at each tick, and protections.
"""
