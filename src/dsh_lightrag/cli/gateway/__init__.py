"""`dsh-lightrag gateway`: the whole gateway with one command, its parts alone, teams and keys.

flags     what every command takes, and what follows from it
place     where a gateway that runs on this machine can be reached
up        database, migrations, knowledge server, worker and API, as long as it runs
tether    a child process that ends when its parent does
parts     migrate, api and worker alone
people    teams and keys
"""
