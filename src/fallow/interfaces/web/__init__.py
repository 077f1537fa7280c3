"""The page, its API and its metrics: what `fallow up` shows to a browser and to programs.

sources    what is shown, and where it comes from     settings  where it listens, and who may
token      the secret of those who may do something   doors     what is let in, and how
words      what the page says, as plain values        rendering those words as parts of a page
streams    parts that changed, to whoever watches     server    uvicorn in a thread that is not ours
page, api, models                                     app       all of it together

Nothing here decides anything. It reads the board, which the policy loop replaces at each tick, and protections.
"""
