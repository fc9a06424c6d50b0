"""What a server, a proxy or a network can do to a client, over real sockets."""
