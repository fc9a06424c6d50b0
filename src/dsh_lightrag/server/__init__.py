"""LightRAG's HTTP API over many workspaces, each served by a backend of `backend.py`.

backend      the protocol between the routes and what serves a workspace
settings     what a server is told at its start
app, serve   the application · the process: port, lock file, signals
services     the parts that routes work with, and what each request is given of them
routes_*     one file per family of routes
requests     what clients may send, with LightRAG's limits
replies      LightRAG's JSON out of a backend's values
health       what the server says of itself
workspaces   which names workspaces may have, and where they lie
credentials  the key and the guests' tokens
failures     every refusal and fault as a reply and a record
pool         open workspaces, leased and evicted
inputs, filing, scanning   files: kept, converted, taken from a folder
file_names, ordinary, removing   how files may be called · files that are none · folders that go
web_ui, typed   LightRAG's own page · what browsers are told of every answer
lock         who serves a data folder
endpoint, models, model_wire   where a model is · asking it · what its API means
background, tracks, refusal   work that outlives its request · track ids · a refusal as a value
"""
