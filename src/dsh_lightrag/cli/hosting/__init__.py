"""The embedded server from the command line: serve, fill, watch and look after its bases.

flags        what a server is built from, as flags and as one value
serve        `serve`: a server until Ctrl-C
own_server   a server in a thread of this process, for a command that needs one
place        which server and which base a command speaks to
sources      files and folders on disk, and the names their documents get
ledger       what was ingested: a file's checksum by its document's name
base         a base over HTTP, as ingestion needs it
ingesting    files into a base: the new, the changed, the gone
report       how ingestion is told: bars on a terminal, lines elsewhere
ingest       `ingest`: that, once
up           `up`: serve a folder's files and follow their changes
connecting   how agents are connected to a server
bases        `bases`: list, create, drop, export, import, reindex, verify
"""
